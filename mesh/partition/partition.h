#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/indexed_vector.h"
#include "core/graph/graph.h"
#include "mesh/partition/placement.h"
#include "mesh/sharding/move.h"
#include "mesh/strategy/strategy.h"

namespace weft::mesh {

/// Id of a value on one mesh in one spec. A graph value has several if ops need it sharded
/// differently.
using LocalId = StrongId<struct LocalTag>;

/// Origin of a local value.
enum class LocalOrigin : std::uint8_t { kInput, kParameter, kReceived, kComputed };

struct LocalValue {
  ValueId value;
  Spec spec;
  LocalOrigin origin = LocalOrigin::kComputed;
  /// True if the first microbatch that needs it makes it for all: a gathered parameter.
  bool once_per_step = false;
};

/// Op on every device of the mesh, each on its own shard.
struct ComputeStep {
  NodeId node;
  std::vector<LocalId> inputs;
  std::vector<LocalId> outputs;
  /// Inputs (a bias) that only devices with index 0 on all of `once_axes` apply, as the outputs are
  /// summed over these axes.
  std::vector<int> single_device_inputs;
  std::vector<int> once_axes;
};

/// Change of a value's spec on its mesh.
struct MoveStep {
  LocalId input;
  LocalId output;
  Move move;
};

/// Step of a mesh's program for one microbatch.
struct Step {
  std::variant<ComputeStep, MoveStep> what;
  StageId stage;
  Pass pass = Pass::kForward;
  /// Sort key of steps within an action, ascending. Communication comes right after the step that
  /// it waits for.
  double order = 0;
};

/// Returns the values that a step reads.
std::vector<LocalId> inputs_of(const Step& step);
/// Returns the values that a step makes.
std::vector<LocalId> outputs_of(const Step& step);

/// Value that is sent from one mesh to another in every microbatch.
struct MeshEdge {
  ValueId value;
  MeshId from_mesh;
  MeshId to_mesh;
  StageId from_stage;
  StageId to_stage;  ///< First stage, in the graph's order, that uses it.
  Pass pass = Pass::kForward;
  /// Value on from_mesh. Partial only if that mesh spans others; then the edge adds up the terms.
  LocalId source;
  LocalId destination;  ///< Value on to_mesh.
};

/// Term of a parameter's gradient (see Gradient), on the mesh that computes it.
struct GradientTerm {
  int index = 0;     ///< Index among the parameter's terms, in the order of addition.
  LocalId gradient;  ///< May be partial, or split differently from the parameter.
};

/// Parameter on one mesh. A parameter shared by stages of several meshes is on each of them, and
/// each updates its own copy with the same gradient.
struct LocalParameter {
  int parameter = 0;  ///< Index into graph.parameters().
  LocalId value;
  /// True on the first mesh in the graph's order, whose copy goes into checkpoints and norms.
  bool is_home = true;
  /// Terms that this mesh computes, ascending; empty in forward-only graphs.
  std::vector<GradientTerm> terms;
};

/// Part of the graph that one mesh computes.
struct MeshPartition {
  IndexedVector<LocalId, LocalValue> locals;
  /// Steps in an order that satisfies dependencies: all F, then all I, then all W.
  std::vector<Step> steps;
  std::vector<LocalParameter> parameters;
  GatherFrequency gather = GatherFrequency::kMicrobatch;  ///< Copied from the strategy.
};

/// Graph cut into stages and sharded: the input of the compiler. Pure data.
struct Partition {
  Graph graph;
  IndexedVector<MeshId, DeviceMesh> meshes;
  /// Mesh of each stage. Stages on one mesh share values without sending them.
  IndexedVector<StageId, MeshId> mesh_of_stage;
  std::vector<StageId> stage_of_block;
  std::optional<VocabularyStages> vocabulary;
  IndexedVector<NodeId, StageId> stage_of_node;
  IndexedVector<MeshId, MeshPartition> per_mesh;
  std::vector<MeshEdge> edges;
  ValueId loss;
  LocalId loss_local;  ///< On loss_mesh; may be partial over data axes.
  MeshId loss_mesh;

  /// Returns the mesh of the vocabulary's stages, whose devices belong to other meshes too.
  std::optional<MeshId> spanning_mesh() const {
    return vocabulary ? std::optional(mesh_of_stage[vocabulary->output]) : std::nullopt;
  }
  bool spans(MeshId mesh) const { return spanning_mesh() == mesh; }
  /// Returns the number of stages that schedules count, without the vocabulary's.
  int num_schedule_stages() const {
    return vocabulary ? vocabulary->output.value() : static_cast<int>(mesh_of_stage.size());
  }
};

/// Inputs of partition().
struct PartitionRequest {
  Graph graph;
  ValueId loss;
  std::vector<Gradient> gradients;  ///< Empty for a forward-only graph.
  IndexedVector<MeshId, DeviceMesh> meshes;
  StageCut cut;
  IndexedVector<MeshId, ShardingStrategy> strategies;
};

/// Cuts the graph into stages, shards every op as its mesh's strategy says, and inserts the
/// communication that specs require (SPMD partitioner). Each input is moved to the spec that its op
/// needs, from the available copy that is cheapest to move. Each output is moved to its home. The
/// loss is computed in the action of its gradient where both read the same values.
/// Throws Error(kInvalidConfig) if a stage is empty.
Partition partition(const PartitionRequest& request);

/// Returns a line with specs per step, and one per edge between meshes.
std::string to_string(const Partition& partition);

}  // namespace weft::mesh

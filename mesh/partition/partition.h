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

/// A value on one mesh in one spec. A logical value has several of them when different ops need it
/// sharded differently.
using LocalId = StrongId<struct LocalTag>;

/// Where a local value comes from.
enum class LocalOrigin : std::uint8_t { kInput, kParameter, kReceived, kComputed };

struct LocalValue {
  ValueId value;
  Spec spec;
  LocalOrigin origin = LocalOrigin::kComputed;
  /// Made for the first microbatch that needs it, and kept for the others: a gathered parameter.
  bool once_per_step = false;
};

/// An op on every device of the mesh, each on its own shard.
struct ComputeStep {
  NodeId node;
  std::vector<LocalId> inputs;
  std::vector<LocalId> outputs;
  /// Inputs (a bias) that only the devices with index 0 on all of `once_axes` apply, as the outputs
  /// will be summed over them.
  std::vector<int> once_inputs;
  std::vector<int> once_axes;
};

/// Brings a value into another spec on its own mesh.
struct MoveStep {
  LocalId input;
  LocalId output;
  Move move;
};

/// One step of a mesh's program for one microbatch.
struct Step {
  std::variant<ComputeStep, MoveStep> what;
  StageId stage;
  Pass pass = Pass::kForward;
  /// Steps of an action run in ascending order; communication comes right after what it waits for.
  double order = 0;
};

/// The values that a step reads.
std::vector<LocalId> inputs_of(const Step& step);
/// The values that a step makes.
std::vector<LocalId> outputs_of(const Step& step);

/// A value that crosses from one mesh to another, per microbatch.
struct MeshEdge {
  ValueId value;
  MeshId from_mesh;
  MeshId to_mesh;
  StageId from_stage;
  StageId to_stage;  ///< A stage that uses it: the first in the graph's order.
  Pass pass = Pass::kForward;
  /// On from_mesh. Partial only where that mesh spans others: then the edge adds up its terms.
  LocalId source;
  LocalId destination;  ///< On to_mesh.
};

/// A term of a parameter's gradient (see Gradient), on the mesh that computes it.
struct GradientTerm {
  int index = 0;     ///< Among all terms of the parameter, in the order of adding.
  LocalId gradient;  ///< Possibly partial, possibly split otherwise than the parameter.
};

/// A parameter as it lies on a mesh. One that stages of several meshes share lies on each of them,
/// and each updates its own copy by the same gradient.
struct LocalParameter {
  int parameter = 0;  ///< Index into graph.parameters().
  LocalId value;
  /// The first mesh in the graph's order: its copy goes into checkpoints and norms.
  bool is_home = true;
  /// Those that this mesh computes, ascending; none in forward-only graphs.
  std::vector<GradientTerm> terms;
};

/// The part of the graph that one mesh computes: values, then steps.
struct MeshPartition {
  IndexedVector<LocalId, LocalValue> locals;
  /// In an order that satisfies dependencies: all F, then all I, then all W.
  std::vector<Step> steps;
  std::vector<LocalParameter> parameters;
};

/// The graph cut into stages and sharded: what the compiler turns into programs. Pure data.
struct Partition {
  Graph graph;
  IndexedVector<MeshId, DeviceMesh> meshes;
  /// Several stages may lie on one mesh; between them values are handed over without a message.
  IndexedVector<StageId, MeshId> mesh_of_stage;
  std::vector<StageId> stage_of_block;
  std::optional<VocabularyStages> vocabulary;
  IndexedVector<NodeId, StageId> stage_of_node;
  IndexedVector<MeshId, MeshPartition> per_mesh;
  std::vector<MeshEdge> edges;
  ValueId loss;
  LocalId loss_local;  ///< On the mesh of the loss; may be partial over data axes.
  MeshId loss_mesh;

  /// The mesh of the vocabulary's stages, which has the devices of others.
  std::optional<MeshId> spanning_mesh() const {
    return vocabulary ? std::optional(mesh_of_stage[vocabulary->output]) : std::nullopt;
  }
  bool spans(MeshId mesh) const { return spanning_mesh() == mesh; }
  /// Those that a schedule counts.
  int num_schedule_stages() const {
    return vocabulary ? vocabulary->output.value() : static_cast<int>(mesh_of_stage.size());
  }
};

/// What to partition, and how.
struct PartitionRequest {
  Graph graph;
  ValueId loss;
  std::vector<Gradient> gradients;  ///< Empty for a forward-only graph.
  IndexedVector<MeshId, DeviceMesh> meshes;
  StageCut cut;
  IndexedVector<MeshId, ShardingStrategy> strategies;
};

/// Cuts the graph into stages, runs every op as its mesh's strategy says and inserts the
/// communication that specs require (the SPMD partitioner): what an op reads is brought into the
/// spec that it needs from where that takes the least, what it makes goes home. Throws
/// Error(kInvalidConfig) when a stage is empty.
Partition partition(const PartitionRequest& request);

/// A line per step and per edge between meshes, with specs.
std::string to_string(const Partition& partition);

}  // namespace weft::mesh

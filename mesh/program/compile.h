#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "mesh/partition/partition.h"
#include "mesh/program/action_list.h"
#include "mesh/program/op_time_model.h"
#include "mesh/program/program.h"
#include "mesh/schedule/schedule.h"
#include "mesh/schedule/vocabulary.h"
#include "transfer/reshard/collective.h"
#include "transfer/reshard/plan.h"
#include "transfer/topology/network.h"

namespace weft::mesh {

/// Placement of communication in programs.
enum class Lowering : std::uint8_t {
  /// One lane per edge. Receives are posted ahead, sends start as soon as the tensor exists, and
  /// devices wait only before first use.
  kLanes,
  /// Safe mode: all actions and transfers have one global order, and all participants block in each
  /// transfer. Cannot deadlock and needs no buffers. The "blocking" arm of benchmarks.
  kSafe,
};

/// Content of the messages between meshes.
enum class Payload : std::uint8_t {
  kTensors,
  /// One or two elements of each shard: the same programs and waits, almost no bytes. The results
  /// are worthless. Benchmarks take the time as a bound that no transfer can beat.
  kSignals,
};

/// Names of the programs of a step. compile_checkpoint() names those of checkpoints.
inline constexpr const char* kTrainProgram = "train";
inline constexpr const char* kValidateProgram = "validate";

/// Options of compile().
struct CompileOptions {
  std::string name = kTrainProgram;
  /// Rates of the hosts' links, by HostId; absent if unknown.
  std::optional<transfer::Network> network = {};
  transfer::ReshardAlgorithm strategy = transfer::ReshardAlgorithm::kWeft;
  Lowering lowering = Lowering::kLanes;
  /// Compounds whose receives of one edge are posted ahead; at least 1. 2 keep the link busy.
  /// Ignored in safe mode.
  int credits = 2;
  Payload payload = Payload::kTensors;
  /// By stage: drops the activations after the forward and recomputes them before the backward. A
  /// stage with an R in the schedule recomputes there in any case. Missing entries mean false.
  std::vector<bool> recompute = {};
  /// Durations that decide when a device waits for transfers over the spanning mesh.
  VocabularyTimes times = {};
  /// Times of ops on the devices, by which the steps of actions are ordered. If absent, or if
  /// `network` is, they keep the order of the model's graph.
  OpTimeModel op_seconds = {};
};

/// An edge between meshes with its plan, as `weft plan` prints it.
struct PlannedEdge {
  MeshEdge edge;
  transfer::ReshardPlan plan;
  std::uint32_t op = 0;  ///< Transfer::op of its transfers.
};

/// Transfer of one term of a shared parameter's gradient to another mesh that has a copy. Happens
/// once per step.
struct TermTransfer {
  int parameter = 0;  ///< Index into graph.parameters().
  int term = 0;       ///< See GradientTerm::index.
  MeshId from_mesh;
  MeshId to_mesh;
  std::uint32_t op = 0;
  transfer::ReshardPlan plan;
};

/// A transfer among the devices of one mesh.
struct InMeshTransfer {
  std::uint32_t op = 0;
  std::variant<transfer::ReshardPlan, transfer::CollectivePlan> plan;
};

/// Static programs of all devices, and the transfers planned for them.
struct Compiled {
  std::vector<Program> programs;  ///< Ordered by mesh, then rank.
  std::vector<PlannedEdge> edges;
  std::vector<TermTransfer> terms;
  std::vector<InMeshTransfer> in_mesh;
  /// Orders of the steps of actions, by mesh. Empty for a mesh that keeps the graph's order.
  IndexedVector<MeshId, ActionListMap> lists;
  /// Exchange of the norms at the end of a training step: every device's row to every device.
  transfer::ReshardPlan norms;
  int num_transfer_ops = 0;
};

/// Returns the pairs (from, to) of stages between which values flow forward, in ascending order,
/// with the bytes per microbatch. Schedules of this partition need them.
std::vector<StageEdge> stage_edges(const Partition& partition);

/// Compiles a partition and a schedule to one static program per device. Stages of one mesh pass
/// values in memory. Weight gradients are added in microbatch order. Memory is assigned by
/// liveness.
///
/// The terms of a parameter that several blocks share are summed separately and exchanged once,
/// after the last microbatch. Each mesh with a copy adds all terms in the same order. Gradients are
/// reduced in buckets of at most a layer. A bucket's reduction starts when the last microbatch has
/// added its terms, or at the REDUCE_GRAD of its stage if the schedule has one; with lanes, devices
/// wait for it when its memory is needed, or at the end. With GatherFrequency::kUse, gradients that
/// devices keep split are reduced in every microbatch. OPT may stand at the end of a list.
///
/// A partition with gradients gets accumulation, reduction of partial gradients, the global norm
/// and the update. A partition without gradients gets forwards only. Validates the result. Throws
/// Error(kInvalidConfig) if the schedule does not fit the partition.
Compiled compile(const Partition& partition, const Schedule& schedule,
                 const transfer::Topology& topology, const CompileOptions& options);

/// Checks programs that were compiled together. Every transfer has the same participants on all
/// sides, every wait follows its start, no instruction touches memory that a transfer in flight
/// fills, and all programs can finish. Throws Error(kInternal) that prints each device's position
/// and the wait that blocks it.
void validate(const std::vector<Program>& programs);

}  // namespace weft::mesh

#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "mesh/partition/partition.h"
#include "mesh/program/program.h"
#include "mesh/schedule/schedule.h"
#include "mesh/schedule/vocabulary.h"
#include "transfer/reshard/collective.h"
#include "transfer/reshard/plan.h"
#include "transfer/topology/network.h"

namespace weft::mesh {

/// How communication is put into programs.
enum class Lowering : std::uint8_t {
  /// A lane per edge: receives are posted ahead, sends leave as soon as the tensor exists, nobody
  /// waits but for first use.
  kLanes,
  /// Safe mode: every transfer is one element of one order of everything, and all who take part
  /// stand still there until it is over. Cannot deadlock, needs no buffers (reference/schedules.md
  /// 5.3, theorem A). The "blocking" arm of benchmarks.
  kSafe,
};

/// What the messages between meshes carry.
enum class Payload : std::uint8_t {
  kTensors,
  /// An element or two of each shard: the same programs and waits, next to no bytes. What is
  /// computed is worthless; benchmarks take its time as the bound that no transfer can beat.
  kSignals,
};

/// The programs of a step by name; those of checkpoints are compile_checkpoint()'s.
inline constexpr const char* kTrainProgram = "train";
inline constexpr const char* kValidateProgram = "validate";

/// How to turn a partition into programs.
struct CompileOptions {
  std::string name = kTrainProgram;
  /// What the hosts' links carry, by HostId; absent: not known.
  std::optional<transfer::Network> network = {};
  transfer::Strategy strategy = transfer::Strategy::kWeft;
  Lowering lowering = Lowering::kLanes;
  /// Receives of one edge that are posted ahead of their use: 2 keeps the wire busy. At least 1; of
  /// no meaning in safe mode.
  int credits = 2;
  Payload payload = Payload::kTensors;
  /// By stage: what its forward computes is dropped after it and computed again before its
  /// backward, or where the schedule says R, which alone asks for it too. Shorter: no for the rest.
  std::vector<bool> recompute = {};
  /// By these it is decided when a device waits for what others send it over a spanning mesh.
  VocabularyTimes times = {};
};

/// An edge between meshes with its plan: what `weft plan` prints.
struct PlannedEdge {
  MeshEdge edge;
  transfer::ReshardPlan plan;
  std::uint32_t op = 0;  ///< Transfer::op of its transfers.
};

/// A term of a shared parameter's gradient on its way to another mesh that has a copy: once per
/// step.
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

/// Static programs for all devices of all meshes, and what was planned on the way.
struct Compiled {
  std::vector<Program> programs;  ///< In the order of meshes, then ranks.
  std::vector<PlannedEdge> edges;
  std::vector<TermTransfer> terms;
  std::vector<InMeshTransfer> in_mesh;
  /// Every device's row of norms to every device, at the end of a training step.
  transfer::ReshardPlan norms;
  int num_transfer_ops = 0;
};

/// Which stage needs what another one computes, with the bytes of a microbatch: for schedules of
/// this partition. By (from, to).
std::vector<StageEdge> stage_edges(const Partition& partition);

/// Projects the schedule to one static program per device, as `options.lowering` says. Stages of
/// one mesh hand values over in memory. Weight gradients are added in microbatch order. The terms
/// of a parameter that several blocks share are summed apart, and meet once, after the last
/// microbatch: each mesh that has a copy adds them all in the same order. Memory is assigned by
/// liveness. Gradients are reduced when the actor's list is over; those of a stage with a
/// REDUCE_GRAD begin there, apart from others, and with lanes nobody waits for them before the end.
/// OPT may stand at the end of a list. A partition with gradients gets accumulation, the reduction
/// of partial gradients, the global norm and the update; one without gets forwards only. The result
/// is validated: matched, complete, free of deadlock.
Compiled compile(const Partition& partition, const Schedule& schedule,
                 const transfer::Topology& topology, const CompileOptions& options);

/// Checks programs that were made for each other: every transfer has the same participants on all
/// sides, every wait follows its start, nothing touches what a transfer under way fills, and the
/// whole can finish. Throws Error(kInternal) that prints each device's position and the wait it is
/// stuck at.
void validate(const std::vector<Program>& programs);

}  // namespace weft::mesh

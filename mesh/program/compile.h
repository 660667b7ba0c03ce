#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mesh/partition/partition.h"
#include "mesh/pipeline/schedule.h"
#include "mesh/program/program.h"
#include "transfer/reshard/plan.h"
#include "transfer/topology/network.h"

namespace weft::mesh {

/// How to turn a partition into programs.
struct CompileOptions {
  std::string name = "train";
  /// What the hosts' links carry, by HostId; absent: not known.
  std::optional<transfer::Network> network = {};
  transfer::Strategy strategy = transfer::Strategy::kWeft;
  /// Transfers of one edge that may be under way at once, and receives posted ahead: 2 keeps the wire busy. At least 1.
  int credits = 2;
};

/// An edge between meshes with its plan: what `weft plan` prints.
struct PlannedEdge {
  MeshEdge edge;
  transfer::ReshardPlan plan;
};

/// Static programs for all devices of all meshes, and what was planned on the way.
struct Compiled {
  std::vector<Program> programs;  ///< In the order of meshes, then ranks.
  std::vector<PlannedEdge> edges;
  int num_transfer_ops = 0;
};

/// Projects the schedule to one static program per device. Receives are posted ahead by `credits`, sends start as soon as the
/// tensor exists, every wait stands just before the first use, memory is assigned by liveness. A partition with gradients gets
/// accumulation, the reduction of partial gradients, the global norm and the update; one without gets forwards only.
/// The result is validated: matched, complete, free of deadlock.
Compiled compile(const Partition& partition, const Schedule& schedule, const transfer::Topology& topology,
                 const CompileOptions& options);

/// Checks programs that were made for each other: every transfer has the same participants on all sides, every wait follows
/// its start, and the whole can finish. Throws Error(kInternal) that prints each device's position and the wait it is stuck at.
void validate(const std::vector<Program>& programs);

}  // namespace weft::mesh

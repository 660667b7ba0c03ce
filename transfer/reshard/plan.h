#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/shape.h"
#include "transfer/flow/device_part.h"
#include "transfer/flow/physical_limit.h"
#include "transfer/reshard/plan_options.h"
#include "transfer/reshard/reshard_algorithm.h"
#include "transfer/reshard/shard_map.h"
#include "transfer/topology/network.h"

namespace weft::transfer {

/// Tensor that must move to other devices, or be cut along other dimensions. Source and destination
/// may share devices.
struct ReshardTask {
  TensorType type;
  ShardMap source;
  ShardMap destination;
  /// Further terms of a sum: the tensor is source + addends[0] + addends[1] + ..., added in this
  /// order for every destination. Each term covers the whole shape; one replica of a term is used.
  /// A device holds a region of at most one term. bf16 is rounded after each addition.
  std::vector<ShardMap> addends = {};

  /// Returns the region of the source or of an addend that `device` holds, or nullptr.
  const Region* source_region_of(DeviceId device) const;

  friend bool operator==(const ReshardTask&, const ReshardTask&) = default;
  static constexpr auto fields = weft::fields(&ReshardTask::type, &ReshardTask::source,
                                              &ReshardTask::destination, &ReshardTask::addends);
};

/// Region that a device copies from its own source shard to its own destination shard.
struct LocalCopy {
  DeviceId device;
  std::uint32_t tensor = 0;
  Region region;
  friend bool operator==(const LocalCopy&, const LocalCopy&) = default;
  static constexpr auto fields =
      weft::fields(&LocalCopy::device, &LocalCopy::tensor, &LocalCopy::region);
};

/// Flows and copies that perform `tasks`. A pure value, equal on every process that computes it.
///
/// Tensor i of the flows and copies is that of tasks[i]. Every (receiving device, byte) is
/// delivered exactly once, by one flow or one local copy.
struct ReshardPlan {
  std::vector<ReshardTask> tasks;
  Topology topology;
  ReshardAlgorithm strategy = ReshardAlgorithm::kWeft;
  std::vector<Flow> flows;  ///< Flows in order of priority.
  std::vector<LocalCopy> copies;
  /// Number of flows that each device sends to other hosts at a time. Empty: as EgressLimit says.
  /// See Strategy::kWeft.
  std::vector<std::uint32_t> egress_slots;
  /// Lower bound on the bytes between hosts of any plan for these tasks.
  std::uint64_t minimum_between_hosts = 0;
  ReshardLimit limit;  ///< Physical limit of these tasks on the planned network.
  /// Result of simulate() for `flows` and `egress_slots`. For more than 100,000 edges, a bound by
  /// load and depth.
  double predicted_seconds = 0;
  std::string note;  ///< Remark of the planner for the user, or empty.

  /// Returns the part of `device`; empty() if it takes no part.
  DevicePart device_part(DeviceId device) const;
  /// Returns every device in a flow or a local copy, ascending.
  std::vector<DeviceId> devices() const;
  /// Returns the SHA-256 of the encoded plan. Compare it across processes before moving data.
  std::string digest() const;

  friend bool operator==(const ReshardPlan&, const ReshardPlan&) = default;
  static constexpr auto fields = weft::fields(
      &ReshardPlan::tasks, &ReshardPlan::topology, &ReshardPlan::strategy, &ReshardPlan::flows,
      &ReshardPlan::copies, &ReshardPlan::egress_slots, &ReshardPlan::minimum_between_hosts,
      &ReshardPlan::limit, &ReshardPlan::predicted_seconds, &ReshardPlan::note);
};

/// Formats the plan: a headline, limit and prediction, then a line per flow and per copy.
std::string to_string(const ReshardPlan& plan);

/// Plans all `tasks` together under `strategy`, for hosts with the links of `network`. Tasks with
/// addends are planned alike under all strategies: a chain over the holders of the terms in their
/// order, then a tree to the devices that need the sum. Throws Error(kInvalidArgument) if the maps
/// of a task do not fit (see cut_slices), name a device outside `topology`, or a host is not in
/// `network`. Also throws if a task with addends is of u8 or has a device in two of its terms.
ReshardPlan plan_reshard(std::span<const ReshardTask> tasks, const Topology& topology,
                         const Network& network, ReshardAlgorithm strategy,
                         const PlanOptions& options = {});
/// Plans one tensor.
ReshardPlan plan_reshard(const ReshardTask& task, const Topology& topology, const Network& network,
                         ReshardAlgorithm strategy, const PlanOptions& options = {});
/// Plans one tensor for unknown links, assuming 1 Gbit/s everywhere. The second form takes chunk
/// options from the caller.
ReshardPlan plan_reshard(const ReshardTask& task, const Topology& topology,
                         ReshardAlgorithm strategy);
ReshardPlan plan_reshard(const ReshardTask& task, const Topology& topology,
                         ReshardAlgorithm strategy, const ChunkOptions& chunks);

}  // namespace weft::transfer

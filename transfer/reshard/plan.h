#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/shape.h"
#include "transfer/flow/device_part.h"
#include "transfer/flow/physical_limit.h"
#include "transfer/reshard/plan_options.h"
#include "transfer/reshard/shard_map.h"
#include "transfer/reshard/strategy.h"
#include "transfer/topology/network.h"

namespace weft::transfer {

/// A tensor that must lie differently: on other devices, or cut along other dimensions. Source and
/// destination may share devices.
struct ReshardTask {
  TensorType type;
  ShardMap source;
  ShardMap destination;
  /// Further terms: the tensor is source + addends[0] + addends[1] + ..., added in this order,
  /// whatever the destination. Each covers the whole shape; of replicas of a term one is taken. A
  /// device holds a region of one term at most. bf16 is rounded after each term.
  std::vector<ShardMap> addends = {};

  /// What `device` holds of the source or of an addend, or nullptr.
  const Region* held_by(DeviceId device) const;

  friend bool operator==(const ReshardTask&, const ReshardTask&) = default;
  static constexpr auto fields = weft::fields(&ReshardTask::type, &ReshardTask::source,
                                              &ReshardTask::destination, &ReshardTask::addends);
};

/// A region that one device copies from its own source shard to its own destination shard.
struct LocalCopy {
  DeviceId device;
  std::uint32_t tensor = 0;
  Region region;
  friend bool operator==(const LocalCopy&, const LocalCopy&) = default;
  static constexpr auto fields =
      weft::fields(&LocalCopy::device, &LocalCopy::tensor, &LocalCopy::region);
};

/// Who sends what to whom so that `tasks` are done: a pure value, equal on every process that
/// computes it.
///
/// Tensor i of its flows and copies is that of tasks[i]. Every (receiving device, byte) is
/// delivered exactly once: by one flow or by one local copy.
struct ReshardPlan {
  std::vector<ReshardTask> tasks;
  Topology topology;
  Strategy strategy = Strategy::kWeft;
  std::vector<Flow> flows;  ///< In order of priority.
  std::vector<LocalCopy> copies;
  /// Per device, how many flows it sends to other hosts at a time; empty: what EgressRule says. See
  /// Strategy::kWeft.
  std::vector<std::uint32_t> egress_places;
  /// No plan for these tasks can send less between hosts.
  std::uint64_t minimum_between_hosts = 0;
  Limit limit;  ///< Of these tasks on the network that the plan was made for.
  /// What simulate() says of `flows` and `egress_places`; of more than 100,000 edges a bound by
  /// load and depth.
  double predicted_seconds = 0;
  std::string note;  ///< What the planner found worth saying, or nothing.

  /// What `device` has to do; empty() if it takes no part.
  DevicePart device_part(DeviceId device) const;
  /// Every device that holds, wants or forwards something, ascending.
  std::vector<DeviceId> devices() const;
  /// SHA-256 over the encoded plan. Compare it across processes before moving data.
  std::string digest() const;

  friend bool operator==(const ReshardPlan&, const ReshardPlan&) = default;
  static constexpr auto fields = weft::fields(
      &ReshardPlan::tasks, &ReshardPlan::topology, &ReshardPlan::strategy, &ReshardPlan::flows,
      &ReshardPlan::copies, &ReshardPlan::egress_places, &ReshardPlan::minimum_between_hosts,
      &ReshardPlan::limit, &ReshardPlan::predicted_seconds, &ReshardPlan::note);
};

/// A headline, limit and prediction, then a line per flow and per copy.
std::string to_string(const ReshardPlan& plan);

/// Plans all `tasks` together under `strategy`, for hosts with the links of `network`. Throws
/// Error(kInvalidArgument) when the maps of a task do not fit (see cut_slices), name a device
/// outside `topology`, or a host is not in `network`; or when a task with addends is of u8 or has a
/// device in two of its terms. Such tasks are planned alike under all strategies: a chain over the
/// holders of the terms in their order, then a tree to those that want the sum.
ReshardPlan plan_reshard(std::span<const ReshardTask> tasks, const Topology& topology,
                         const Network& network, Strategy strategy,
                         const PlanOptions& options = {});
/// The same for one tensor.
ReshardPlan plan_reshard(const ReshardTask& task, const Topology& topology, const Network& network,
                         Strategy strategy, const PlanOptions& options = {});
/// The same where the links are not known, as if they carried 1 Gbit/s everywhere; with chunks of
/// the caller's choice in the second form.
ReshardPlan plan_reshard(const ReshardTask& task, const Topology& topology, Strategy strategy);
ReshardPlan plan_reshard(const ReshardTask& task, const Topology& topology, Strategy strategy,
                         const ChunkOptions& chunks);

}  // namespace weft::transfer

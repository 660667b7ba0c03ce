#pragma once

#include <cstdint>
#include <vector>

#include "transfer/reshard/internal/plan_builder.h"

namespace weft::transfer::internal {

/// Bundle as a scheduler of hosts sees it. It occupies its sender and all its receivers for
/// `bytes`; a host handles one bundle at a time.
struct ScheduleItem {
  std::uint32_t bundle = 0;
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> senders;    ///< Hosts that can send it.
  std::vector<std::uint32_t> receivers;  ///< Hosts that receive it.
};

/// Next unit of a schedule, and the host that sends it.
struct HostAssignment {
  std::uint32_t unit = 0;
  std::uint32_t sender = 0;
};

/// Returns the bundles that cross wires.
std::vector<ScheduleItem> units_of(const ReshardDemand& demand);
/// Returns the end of the last unit, in bytes. Each unit starts as soon as its hosts are free, in
/// the given order.
std::uint64_t makespan(const std::vector<ScheduleItem>& units,
                       const std::vector<HostAssignment>& order, std::size_t num_hosts);

/// Runs the randomised greedy search of Zhuang et al. (MLSys 2023), with the slices' true sizes.
/// Repeatedly takes the largest of many random sets of units that can run concurrently; ties go to
/// the set that loads senders most evenly.
std::vector<HostAssignment> greedy_order(const std::vector<ScheduleItem>& units,
                                         std::size_t num_hosts, std::uint64_t seed);
/// Searches depth-first over (next unit, its sender), pruned by a lower bound. Visits at most
/// `nodes` nodes. The result is never worse than `best`.
std::vector<HostAssignment> search_order(const std::vector<ScheduleItem>& units,
                                         std::size_t num_hosts, std::vector<HostAssignment> best,
                                         std::uint64_t nodes);

/// Adds chains in that order, then the flows inside hosts.
void add_in_order(PlanBuilder& draft, const std::vector<ScheduleItem>& units,
                  const std::vector<HostAssignment>& order);

}  // namespace weft::transfer::internal

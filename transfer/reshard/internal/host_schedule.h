#pragma once

#include <cstdint>
#include <vector>

#include "transfer/reshard/internal/draft.h"

namespace weft::transfer::internal {

/// A bundle as a scheduler of hosts sees it: it occupies its sender and all its receivers for
/// `bytes`, one bundle at a time per host.
struct Unit {
  std::uint32_t bundle = 0;
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> senders;    ///< Hosts.
  std::vector<std::uint32_t> receivers;  ///< Hosts.
};

/// Which unit goes next, from which host.
struct HostAssignment {
  std::uint32_t unit = 0;
  std::uint32_t sender = 0;
};

/// The bundles that cross wires.
std::vector<Unit> units_of(const Demand& demand);
/// When the last unit ends, each starting as soon as its hosts are free, in the order given. In
/// bytes.
std::uint64_t makespan(const std::vector<Unit>& units, const std::vector<HostAssignment>& order,
                       std::size_t num_hosts);

/// The randomised greedy of Zhuang et al. (MLSys 2023), with the slices' true sizes: again and
/// again the largest of many random sets of units that can run at once, ties broken by how evenly
/// the senders are loaded.
std::vector<HostAssignment> greedy_order(const std::vector<Unit>& units, std::size_t num_hosts,
                                         std::uint64_t seed);
/// Depth-first over (next unit, its sender), cut off by a lower bound that no schedule beats; never
/// worse than `best`.
std::vector<HostAssignment> search_order(const std::vector<Unit>& units, std::size_t num_hosts,
                                         std::vector<HostAssignment> best, std::uint64_t nodes);

/// Chains in that order; then what stays inside hosts.
void add_in_order(Draft& draft, const std::vector<Unit>& units,
                  const std::vector<HostAssignment>& order);

}  // namespace weft::transfer::internal

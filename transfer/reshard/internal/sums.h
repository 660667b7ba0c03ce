#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transfer/flow/physical_limit.h"
#include "transfer/reshard/plan.h"

namespace weft::transfer::internal {

/// Slices of sums whose terms the same devices give, in the same order, and the same devices want.
struct SumChain {
  std::vector<DeviceId> devices;    ///< The holder of each term. All different; at least two.
  std::vector<DeviceId> receivers;  ///< Ascending; some may be among `devices`.
  DType dtype = DType::kF32;
  std::vector<Segment> segments;
  std::uint64_t bytes = 0;
};

/// What the tasks with addends ask for.
struct SumDemand {
  std::vector<SumChain> chains;
  /// The mirror of gathering the terms: the hosts that want a sum send it to those that alone hold
  /// a term. Its limit on the mirrored network is one of the sums.
  std::vector<Datum> mirrored;
  /// Terms must reach the hosts that want the sum and hold none.
  std::vector<Datum> spread;
  /// No plan can do with less: see gather_sums().
  std::uint64_t minimum_between_hosts = 0;
};

/// Cuts the tasks that have addends into slices and chooses the holder of each term: so that chains
/// change hosts as seldom as they can, and of equal choices for hosts that have less to send.
///
/// Of a byte whose terms only the hosts R hold and the hosts D want, at least |R| + |D| - 1 copies
/// cross wires, less one if R and D share a host: let x be the first host to know all terms. By
/// then every other host of R has sent once, and after that every other one of D must still
/// receive.
///
/// Throws what cut_sum_slices() throws, and Error(kInvalidArgument) for u8, a device outside
/// `topology` or maps of another shape.
SumDemand gather_sums(std::span<const ReshardTask> tasks, const Topology& topology);

/// No plan can be faster. For sums wanted on one host, of terms on one host each: that of
/// broadcasts from there to the holders, with all links reversed. `others`: what else the plan
/// moves.
Limit limit_of(const SumDemand& sums, std::span<const Datum> others, const Network& network);

struct SumFlows {
  std::vector<Flow> flows;  ///< Each kSum is followed by its kResult, if it has one.
  /// For simulation: each kSum with its kResult as one tree, in which a device that comes a second
  /// time has a stand-in on its host.
  std::vector<Flow> as_trees;
  Topology topology;  ///< With the stand-ins.
};

/// Ids begin at `first_id`. `limit_seconds`: the plan's limit, for the choice of chunks.
SumFlows plan_sums(const SumDemand& sums, const Topology& topology, const Network& network,
                   const PlanOptions& options, double limit_seconds, std::size_t first_id);

}  // namespace weft::transfer::internal

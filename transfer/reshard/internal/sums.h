#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transfer/flow/physical_limit.h"
#include "transfer/reshard/plan.h"

namespace weft::transfer::internal {

/// Slices of sums with equal holders of the terms, in the same order, and equal receivers.
struct SumChain {
  std::vector<DeviceId> devices;  ///< Holder of each term. All different; at least two.
  /// Devices that need the sum, ascending. Some may be among `devices`.
  std::vector<DeviceId> receivers;
  DType dtype = DType::kF32;
  std::vector<Segment> segments;
  std::uint64_t bytes = 0;
};

/// Sums that the tasks with addends require.
struct SumDemand {
  std::vector<SumChain> chains;
  /// Transposed problem of gathering the terms: the hosts that need a sum send it to the hosts that
  /// alone hold a term. Its limit on the mirrored network bounds the sums.
  std::vector<HostDemand> mirrored;
  /// Data that must reach the hosts that need a sum and hold no term.
  std::vector<HostDemand> spread;
  /// Lower bound of any plan; see collect_sums().
  std::uint64_t minimum_between_hosts = 0;
};

/// Cuts the tasks with addends into slices and chooses the holder of each term. Chains change hosts
/// as seldom as possible; ties go to less loaded hosts.
///
/// Consider a byte whose terms only the hosts R hold and which the hosts D need. At least |R| + |D|
/// - 1 copies cross wires, less one if R and D share a host. Let x be the first host to know all
/// terms. By then every other host of R has sent once; afterwards every other host of D must still
/// receive.
///
/// Throws the errors of cut_sum_slices(), and Error(kInvalidArgument) for u8, a device outside
/// `topology` or maps of another shape.
SumDemand collect_sums(std::span<const ReshardTask> tasks, const Topology& topology);

/// Returns a lower bound on the time of the sums with `others`, the other data of the plan. For
/// sums needed on one host, of terms on one host each, it is the limit of broadcasts from there to
/// the holders with all links reversed.
ReshardLimit limit_of(const SumDemand& sums, std::span<const HostDemand> others,
                      const Network& network);

struct SumFlows {
  std::vector<Flow> flows;  ///< Flows; each kSum is followed by its kResult, if it has one.
  /// Flows for simulation: each kSum with its kResult is one tree. A device that appears twice in
  /// it has a stand-in on its host.
  std::vector<Flow> as_trees;
  Topology topology;  ///< Topology with the stand-ins.
};

/// Plans the flows of sums. Ids begin at `first_id`. `limit_seconds` is the plan's limit, for the
/// choice of chunks.
SumFlows plan_sums(const SumDemand& sums, const Topology& topology, const Network& network,
                   const PlanOptions& options, double limit_seconds, std::size_t first_id);

}  // namespace weft::transfer::internal

#pragma once

#include <vector>

#include "transfer/reshard/internal/reshard_demand.h"
#include "transfer/reshard/plan_options.h"

namespace weft::transfer::internal {

struct WeftPlan {
  std::vector<Flow> flows;
  std::vector<std::uint32_t> egress_slots;  ///< Egress slots per device; see ReshardPlan.
  double predicted_seconds = 0;
  /// True if the plan is small enough for a cheap comparison with other strategies.
  bool compare = false;
};

/// Implements Strategy::kWeft. `solution` is that of the demand's data on `network`.
///
///   1. Amounts: assigns copies of whole data to hosts, under several preferences. If that exceeds
///      the limit, moves the excess along the limit's flow, and cuts data of which hosts then send
///      fractions (pieces.h).
///   2. Trees with those degrees, ordered by the hosts' spare egress: one flow per tree and bundle,
///      one entry device per host (piece_flows.h).
///   3. Order: a regular one. If that is not good enough, preemptive schedules, compared by
///      simulation (order_search.h, transfer/decisions.md).
WeftPlan plan_weft(const ReshardDemand& demand, const Topology& topology, const Network& network,
                   const PlanOptions& options, const LimitSolution& solution);

}  // namespace weft::transfer::internal

#pragma once

#include <vector>

#include "transfer/reshard/internal/demand.h"
#include "transfer/reshard/plan_options.h"

namespace weft::transfer::internal {

struct WeftPlan {
  std::vector<Flow> flows;
  std::vector<std::uint32_t> egress_places;  ///< See ReshardPlan.
  double predicted_seconds = 0;
  /// Small enough that comparing it with other strategies costs little.
  bool compare = false;
};

/// Strategy::kWeft. `solution`: of the demand's data on `network`.
///
/// 1. Who sends how much: whole data, each copy by the host that is then loaded least; where that
///    exceeds the limit, what exceeds it is moved along the limit's flow, and data that hosts then
///    send in fractions are cut (pieces.h).
/// 2. Who sends to whom: trees with those degrees, ordered by what hosts can spare (forest.h); one
///    flow per tree and bundle, one entry device per host.
/// 3. In which order: a regular one; where that is not good enough, a preemptive schedule or a
///    searched order, judged by simulation (transfer/decisions.md).
WeftPlan plan_weft(const Demand& demand, const Topology& topology, const Network& network,
                   const PlanOptions& options, const LimitSolution& solution);

}  // namespace weft::transfer::internal

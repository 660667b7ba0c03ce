#pragma once

#include "transfer/flow/physical_limit.h"
#include "transfer/reshard/internal/reshard_demand.h"
#include "transfer/reshard/plan_options.h"
#include "transfer/topology/network.h"
#include "transfer/topology/topology.h"

namespace weft::transfer::internal {

/// Inputs of all phases of plan_weft(), which owns it for one call. Borrows everything.
struct WeftProblem {
  const ReshardDemand& demand;
  const Topology& topology;
  const Network& network;
  const PlanOptions& options;
  const ReshardLimit& limit;  ///< Limit of the demand's data on `network`.
};

}  // namespace weft::transfer::internal

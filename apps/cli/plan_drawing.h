#pragma once

#include "apps/svg/svg.h"
#include "transfer/reshard/plan.h"
#include "transfer/topology/network.h"

namespace weft::apps {

/// Draws a plan. Hosts that only hold data are on the left, hosts with destinations on the right.
/// There is an arrow per flow and pair of hosts (per pair of hosts if there are many flows), as
/// wide as its bytes. Each host shows the load of its links during the predicted time.
Svg draw_plan(const transfer::ReshardPlan& plan, const transfer::Network& network);

}  // namespace weft::apps

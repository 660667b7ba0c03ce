#pragma once

#include "apps/run_files/svg.h"
#include "transfer/reshard/plan.h"
#include "transfer/topology/network.h"

namespace weft::apps {

/// Who sends what to whom: hosts that only hold on the left, hosts that want on the right, an arrow
/// per flow and pair of hosts (per pair of hosts where there are many flows), as wide as its bytes;
/// under each host how busy its links are in the predicted time.
Svg draw_plan(const transfer::ReshardPlan& plan, const transfer::Network& network);

}  // namespace weft::apps

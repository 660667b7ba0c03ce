#pragma once

#include <cstdint>
#include <vector>

#include "transfer/reshard/internal/plan_builder.h"

namespace weft::transfer::internal {

// Planners of the strategies, one file each. They add all flows of the draft's demand.
void plan_send_recv(PlanBuilder& draft);
void plan_local_allgather(PlanBuilder& draft);
void plan_global_allgather(PlanBuilder& draft);
void plan_broadcast_naive(PlanBuilder& draft);
void plan_broadcast(PlanBuilder& draft);
void plan_broadcast_greedy(PlanBuilder& draft);
void plan_broadcast_search(PlanBuilder& draft);

/// Gives every receiver of a bundle its own copy. Also the fallback of the all-gathers.
void add_send_recv(PlanBuilder& draft, const SliceGroup& bundle);

}  // namespace weft::transfer::internal

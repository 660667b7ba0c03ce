#pragma once

#include <cstdint>
#include <vector>

#include "transfer/reshard/internal/draft.h"

namespace weft::transfer::internal {

// Planners of the strategies, one file each. They add all flows of the draft's demand.
void plan_send_recv(Draft& draft);
void plan_local_allgather(Draft& draft);
void plan_global_allgather(Draft& draft);
void plan_broadcast_naive(Draft& draft);
void plan_broadcast(Draft& draft);
void plan_broadcast_greedy(Draft& draft);
void plan_broadcast_search(Draft& draft);

/// Gives every receiver of a bundle its own copy. Also the fallback of the all-gathers.
void add_send_recv(Draft& draft, const Bundle& bundle);

}  // namespace weft::transfer::internal

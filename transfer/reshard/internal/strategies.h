#pragma once

#include <cstdint>
#include <vector>

#include "transfer/reshard/internal/draft.h"

namespace weft::transfer::internal {

// One file each. They write all flows of the draft's demand.
void plan_send_recv(Draft& draft);
void plan_local_allgather(Draft& draft);
void plan_global_allgather(Draft& draft);
void plan_broadcast_naive(Draft& draft);
void plan_broadcast(Draft& draft);
void plan_broadcast_greedy(Draft& draft);
void plan_broadcast_search(Draft& draft);

/// One slice's receivers each get their own copy; also what gathers fall back to.
void add_send_recv(Draft& draft, const Bundle& bundle);

}  // namespace weft::transfer::internal

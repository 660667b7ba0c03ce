#pragma once

#include "actors/system/survey.h"
#include "core/base/clock.h"
#include "mesh/runtime/progress_board.h"

namespace weft::mesh {

/// What a device is at, for `weft why`: the action of its program, the op that it is inside of or
/// the transfer that it waits for, and with whom. Any thread.
actors::ActorActivity device_activity(const ProgressBoard& board, TimePoint now);

}  // namespace weft::mesh

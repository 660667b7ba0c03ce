#pragma once

#include "actors/system/survey.h"
#include "core/base/clock.h"
#include "mesh/runtime/progress_board.h"

namespace weft::mesh {

/// Returns a device's current activity for `weft why`: the action of its program, and the op that
/// it runs or the transfer and peers that it waits for. Any thread.
actors::ActorActivity device_activity(const ProgressBoard& board, TimePoint now);

}  // namespace weft::mesh

#pragma once

#include "core/base/clock.h"

namespace weft::transfer {

/// When a transfer is given up by itself; without limits, by the death of a peer or by cancel_all() alone. Who knows all devices
/// judges better than one of them (see mesh/group): a transfer may wait long for a partner that computes.
struct TransferLimits {
  Nanoseconds deadline = Nanoseconds(0);  ///< From its start on this device; 0: none.
  /// Without a chunk that leaves or lands here; 0: does not matter. max(1 s, 20 times what a chunk takes) is a good choice.
  Nanoseconds no_progress = Nanoseconds(0);
};

}  // namespace weft::transfer

#pragma once

#include "core/base/clock.h"

namespace weft::transfer {

/// What a transfer may claim: when it is given up by itself, and whose turn comes first. Without
/// limits it is given up by the death of a peer or by cancel() alone. Who knows all devices
/// judges better than one of them (see mesh/executor): a transfer may wait long for a partner that
/// computes.
struct TransferLimits {
  Nanoseconds deadline = Nanoseconds(0);  ///< From its start on this device; 0: none.
  /// Without a chunk that leaves or lands here; 0: does not matter. max(1 s, 20 times what a chunk
  /// takes) is a good choice.
  Nanoseconds no_progress = Nanoseconds(0);
  /// Where transfers compete for the network, it lets all that do not go first, whenever they were
  /// started: for what nobody waits for.
  bool stands_back = false;
};

}  // namespace weft::transfer

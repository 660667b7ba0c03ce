#pragma once

#include "core/base/clock.h"

namespace weft::transfer {

/// Time limits and priority of a transfer. Without limits, only the death of a peer or cancel()
/// ends it early. A coordinator that sees all devices judges stalls better (see mesh/executor),
/// since a transfer may wait long for a peer that computes.
struct TransferLimits {
  /// Longest duration, from the start on this device. 0: no limit.
  Nanoseconds deadline = Nanoseconds(0);
  /// Longest time without a chunk that leaves or lands here. 0: no limit. A good value is max(1 s,
  /// 20 times the duration of a chunk).
  Nanoseconds no_progress = Nanoseconds(0);
  /// Low priority: on the network, all transfers without this flag go first, whenever they started.
  /// Meant for transfers that no computation waits for.
  bool low_priority = false;
};

}  // namespace weft::transfer

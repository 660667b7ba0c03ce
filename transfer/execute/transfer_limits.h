#pragma once

#include "core/base/clock.h"

namespace weft::transfer {

/// When a transfer is given up.
struct TransferLimits {
  Nanoseconds deadline;  ///< From its start on this device.
  /// Without a chunk that leaves or lands here; 0: does not matter. max(1 s, 20 times what a chunk takes) is a good choice.
  Nanoseconds no_progress = Nanoseconds(0);
};

}  // namespace weft::transfer

#pragma once

#include "core/base/clock.h"

namespace weft::transfer {

/// When a transfer is given up.
struct TransferLimits {
  Nanoseconds deadline;  ///< From its start on this device.
};

}  // namespace weft::transfer

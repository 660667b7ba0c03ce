#pragma once

#include "core/base/clock.h"

namespace weft {

/// Clock with a blocking wait, injected so that tests need not wait. Not thread-safe.
class WaitableClock : public Clock {
 public:
  /// Blocks until `time` or slightly later; returns at once if it has passed.
  virtual void block_until(TimePoint time) = 0;
};

/// Monotonic clock of the machine, with the smallest timer slack that the kernel allows.
class SystemWaitableClock final : public WaitableClock {
 public:
  TimePoint now() const override { return SteadyClock().now(); }
  void block_until(TimePoint time) override;
};

}  // namespace weft

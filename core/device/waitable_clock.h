#pragma once

#include "core/base/clock.h"

namespace weft {

/// A clock that can be waited for. Passed in, so that tests need not wait. One thread at a time.
class WaitableClock : public Clock {
 public:
  /// Returns at `time` or a little later; at once if it has passed.
  virtual void hold_until(TimePoint time) = 0;
};

/// The machine's monotonic clock, with the least slack that the kernel grants a thread.
class SystemWaitableClock final : public WaitableClock {
 public:
  TimePoint now() const override { return SteadyClock().now(); }
  void hold_until(TimePoint time) override;
};

}  // namespace weft

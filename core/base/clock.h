#pragma once

#include <chrono>

namespace weft {

using Nanoseconds = std::chrono::nanoseconds;
/// Monotonic time since an arbitrary start; comparable within one machine, never between machines.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Nanoseconds>;

inline double in_seconds(Nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

/// Where time comes from. Passed in, so that tests decide what time it is. Any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

/// The machine's monotonic clock; that of the simulated world where there is one (see Platform).
class SteadyClock final : public Clock {
 public:
  TimePoint now() const override;
};

/// A clock that a test moves. One thread at a time.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(Nanoseconds by) { now_ += by; }

 private:
  TimePoint now_{};
};

}  // namespace weft

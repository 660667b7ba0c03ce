#pragma once

#include <chrono>

namespace weft {

using Nanoseconds = std::chrono::nanoseconds;
/// Monotonic time since an arbitrary start. Comparable on one machine, never between machines.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Nanoseconds>;

inline double in_seconds(Nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

/// Source of time, injected so that tests can control it. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

/// Monotonic clock of the machine, or of the simulation if one runs (see Platform).
class SteadyClock final : public Clock {
 public:
  TimePoint now() const override;
};

/// Clock that a test advances by hand. Not thread-safe.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(Nanoseconds by) { now_ += by; }

 private:
  TimePoint now_{};
};

}  // namespace weft

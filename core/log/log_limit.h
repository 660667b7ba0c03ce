#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "core/base/clock.h"

namespace weft {

/// Rate limit for a repeated log line: admits one line per interval and counts the suppressed ones.
///
///   if (const auto held_back = refusals.admit())
///     log.warning("refused {} ({} more since the last such line)", who, *held_back);
///
/// Not thread-safe.
class LogLimit final {
 public:
  /// The clock must outlive this object.
  LogLimit(const Clock& clock, Nanoseconds interval) : clock_(clock), interval_(interval) {}

  /// Returns the number of lines suppressed since the last admitted one if a line may be written
  /// now, otherwise nullopt.
  std::optional<std::uint64_t> admit() {
    const TimePoint now = clock_.now();
    if (last_ && now - *last_ < interval_) {
      ++held_back_;
      return std::nullopt;
    }
    last_ = now;
    return std::exchange(held_back_, 0);
  }

 private:
  const Clock& clock_;
  const Nanoseconds interval_;
  std::optional<TimePoint> last_;
  std::uint64_t held_back_ = 0;
};

}  // namespace weft

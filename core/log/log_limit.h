#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "core/base/clock.h"

namespace weft {

/// Keeps a log readable when the same thing happens over and over: one line per interval passes,
/// the others are counted.
///
///   if (const auto held_back = refusals.admit())
///     log.warning("refused {} ({} more since the last such line)", who, *held_back);
///
/// One thread at a time.
class LogLimit final {
 public:
  /// The clock must outlive this.
  LogLimit(const Clock& clock, Nanoseconds interval) : clock_(clock), interval_(interval) {}

  /// Whether this line may be written: then how many were held back since the last one.
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

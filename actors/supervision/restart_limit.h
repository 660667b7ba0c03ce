#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>

#include "core/base/clock.h"

namespace weft::actors {

/// How often something that has died is started again: what dies sooner than that has a cause that
/// a restart does not mend. OTP's restart intensity. Pure but for the times that are passed in. One
/// thread at a time.
class RestartLimit final {
 public:
  static constexpr std::size_t kRestarts = 3;
  static constexpr Nanoseconds kWithin = std::chrono::minutes(10);

  /// It is to be started again: which restart of kRestarts that is, within kWithin; nothing when it
  /// is one too many.
  std::optional<std::size_t> admit(TimePoint now) {
    while (!restarts_.empty() && now - restarts_.front() > kWithin) restarts_.pop_front();
    if (restarts_.size() >= kRestarts) return std::nullopt;
    restarts_.push_back(now);
    return restarts_.size();
  }

 private:
  std::deque<TimePoint> restarts_;
};

}  // namespace weft::actors

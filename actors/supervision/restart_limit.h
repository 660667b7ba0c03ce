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

  explicit RestartLimit(std::size_t restarts = kRestarts, Nanoseconds within = kWithin)
      : most_(restarts), within_(within) {}

  std::size_t most() const { return most_; }
  Nanoseconds within() const { return within_; }
  /// It is to be started again: which restart that is, of most() within within(); nothing when it
  /// is one too many.
  std::optional<std::size_t> admit(TimePoint now) {
    while (!restarts_.empty() && now - restarts_.front() > within_) restarts_.pop_front();
    if (restarts_.size() >= most_) return std::nullopt;
    restarts_.push_back(now);
    return restarts_.size();
  }

 private:
  std::size_t most_;
  Nanoseconds within_;
  std::deque<TimePoint> restarts_;
};

}  // namespace weft::actors

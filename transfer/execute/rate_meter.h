#pragma once

#include <cstdint>
#include <optional>

#include "core/base/clock.h"

namespace weft::transfer {

/// How fast a link takes bytes, seen from its sender: completed bytes over time, in windows in which there was always something
/// under way. A mean over those windows, the newest weighing most.
///
/// A window begins with a completion and not with the first send, because what is under way then is under way at its end too. One
/// that an idle moment cuts short is thrown away: what was sent in it says nothing about the link. So only transfers much longer
/// than a window are seen. A value; the time is passed in.
class RateMeter final {
 public:
  static constexpr Nanoseconds kWindow = std::chrono::milliseconds(100);

  /// `bytes` have left. `busy`: more are under way now.
  void completed(std::uint64_t bytes, bool busy, TimePoint now);
  /// Nothing is under way any more, without a completion.
  void idle() { window_.reset(); }
  /// Bytes per second; nothing before the first whole window.
  std::optional<double> rate() const { return rate_; }

 private:
  static constexpr double kNewest = 0.25;
  struct Window {
    TimePoint began;
    std::uint64_t bytes;
  };
  std::optional<Window> window_;
  std::optional<double> rate_;
};

}  // namespace weft::transfer

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/base/clock.h"

namespace weft::transfer {

/// How fast a link takes bytes, seen from its sender: completed bytes over time, in windows in
/// which there was always something under way. The fastest of the newest few: a window can be slow
/// because a process did not get its processor.
///
/// A window begins with a completion and not with the first send, because what is under way then is
/// under way at its end too. One that an idle moment cuts short is thrown away: what was sent in it
/// says nothing about the link. So only transfers much longer than a window are seen. A value; the
/// time is passed in.
class RateMeter final {
 public:
  static constexpr Nanoseconds kWindow = std::chrono::milliseconds(100);

  /// `bytes` have left. `busy`: more are under way now.
  void completed(std::uint64_t bytes, bool busy, TimePoint now);
  /// Nothing is under way any more, without a completion.
  void idle() { window_.reset(); }
  /// Bytes per second; nothing before the third whole window.
  std::optional<double> rate() const;

 private:
  static constexpr std::size_t kRemembered = 8, kEnough = 3;
  struct Window {
    TimePoint began;
    std::uint64_t bytes;
  };
  std::optional<Window> window_;
  std::array<double, kRemembered> seen_{};
  std::size_t num_seen_ = 0;
};

}  // namespace weft::transfer

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/base/clock.h"

namespace weft::transfer {

/// Measures how fast a link takes bytes, at its sender: completed bytes over time, in windows
/// during which a send was always in flight. Reports the fastest of the last eight windows, since a
/// window can be slow because the process was not scheduled.
///
/// A window begins with a completion, not with the first send, because the sends in flight at its
/// begin are matched by those at its end. A window that an idle moment interrupts is discarded. So
/// only transfers much longer than a window are measured. A value; callers pass the time.
class RateMeter final {
 public:
  static constexpr Nanoseconds kWindow = std::chrono::milliseconds(100);

  /// Records that `bytes` have left. `busy`: further bytes are in flight.
  void completed(std::uint64_t bytes, bool busy, TimePoint now);
  /// Records that nothing is in flight any more, without a completion.
  void idle() { window_.reset(); }
  /// Returns bytes per second. Empty before the third whole window.
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

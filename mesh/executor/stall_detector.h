#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "mesh/runtime/progress_board.h"

namespace weft::mesh {

/// Times after which a run without progress is reported, or ended.
struct ProgressLimits {
  Nanoseconds no_progress = std::chrono::seconds(60);
  std::optional<Nanoseconds> longest_op = {};  ///< No limit if absent.
};

/// Judge of whether an execution makes progress, from the reports of all devices. An execution that
/// moves is never too slow. Pure: times are passed in. One thread at a time.
///
/// Progress is any instruction finished, any chunk moved, and any bytes received beyond keep-alive
/// traffic. Time before the first device has begun does not count. If nothing has moved for
/// `no_progress` while a device is inside an op or does not answer, the verdict is kStalled,
/// repeated every `no_progress`. If no device is inside an op (a deadlock, or a hanging
/// connection), it is kDeadlock. It is kOpTooLong if an op exceeds `longest_op`.
class StallDetector final {
 public:
  /// Reports by device; nothing for a device that does not answer. Others must judge whether it
  /// lives.
  using Reports = std::vector<std::optional<DeviceProgress>>;
  enum class Kind : std::uint8_t { kProgressing, kStalled, kDeadlock, kOpTooLong };
  struct Verdict {
    Kind kind = Kind::kProgressing;
    Nanoseconds stalled_for = Nanoseconds::zero();  ///< Time since the last progress.
    /// Device that has been inside an op or handler for the longest time.
    std::optional<std::size_t> device;
  };

  /// `run`: number of the execution (StepRequest::execution_number).
  StallDetector(const ProgressLimits& limits, std::uint64_t run) : limits_(limits), run_(run) {}

  /// Interval between calls of check() that suits the limits.
  Nanoseconds interval() const;
  Verdict check(const Reports& reports, TimePoint now);

 private:
  /// Returns whether any device has progressed since the last move.
  bool has_moved(const Reports& reports, TimePoint now) const;
  static std::optional<std::size_t> longest_inside(const Reports& reports);
  const ProgressLimits limits_;
  const std::uint64_t run_;
  Reports at_last_move_;
  std::optional<TimePoint> moved_, told_;
};

}  // namespace weft::mesh

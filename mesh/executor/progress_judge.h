#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "mesh/runtime/progress_board.h"

namespace weft::mesh {

/// When a run that does not move is told of, and when it ends.
struct ProgressLimits {
  Nanoseconds no_progress = std::chrono::seconds(60);
  std::optional<Nanoseconds> longest_op = {};  ///< Nothing: an op may take for ever.
};

/// Whether an execution of programs gets on, judged by what all of its devices report together: by
/// progress, never by duration. Pure but for the times that are passed in. One thread at a time.
///
/// Progress is any instruction that a device has finished and any chunk that has moved, anywhere,
/// and more bytes from the network than signs of life account for.
/// Time before a device has begun does not count. Where nothing has moved for `no_progress` and a
/// device is inside an op, or does not answer, somebody is to be told, again and again; the
/// execution ends only where nobody is inside anything (a deadlock, or a connection that hangs), or
/// where one op takes longer than `longest_op`.
class ProgressJudge final {
 public:
  /// By device; nothing where one does not answer: then it is for others to say whether it lives.
  using Reports = std::vector<std::optional<DeviceProgress>>;
  enum class Kind : std::uint8_t { kFine, kStill, kDeadlock, kOpTooLong };
  struct Verdict {
    Kind kind = Kind::kFine;
    Nanoseconds still = Nanoseconds::zero();  ///< For so long nothing has moved.
    /// The one that has been inside something for the longest time.
    std::optional<std::size_t> device;
  };

  /// Of the execution of this number (StepRequest::run).
  ProgressJudge(const ProgressLimits& limits, std::uint64_t run) : limits_(limits), run_(run) {}

  /// How often it should look: often enough for its limits.
  Nanoseconds interval() const;
  Verdict look(const Reports& reports, TimePoint now);

 private:
  /// Whether any device has come further than when anything last moved.
  bool has_moved(const Reports& reports, TimePoint now) const;
  const ProgressLimits limits_;
  const std::uint64_t run_;
  Reports at_last_move_;
  std::optional<TimePoint> moved_, told_;
};

}  // namespace weft::mesh

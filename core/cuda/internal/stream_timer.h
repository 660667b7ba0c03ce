#pragma once

#include <functional>
#include <limits>
#include <optional>

#include "core/cuda/internal/launches.h"

struct CUevent_st;

namespace weft::cuda {

/// Measures how long queued work takes on the GPU, by events of its stream. Other work must not be
/// queued on the stream meanwhile. Not thread-safe.
class StreamTimer final {
 public:
  explicit StreamTimer(StreamHandle stream);
  ~StreamTimer();
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;

  /// Returns the least microseconds of one run of several, after one run that is not counted. Null
  /// if `queue`, which queues the work, returns false. Short work runs more often. Together the
  /// runs take less than 2.5 ms, or as long as two of them. Work that takes more than twice `best`
  /// is measured once.
  std::optional<double> time(const std::function<bool()>& queue,
                             double best = std::numeric_limits<double>::infinity());

 private:
  /// Returns the microseconds of `runs` runs; null if one of them fails.
  std::optional<double> time_runs(const std::function<bool()>& queue, int runs);

  const StreamHandle stream_;
  CUevent_st *begin_ = nullptr, *end_ = nullptr;
};

}  // namespace weft::cuda

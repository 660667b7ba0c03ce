#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "core/trace/trace_event.h"

namespace weft {

/// Buffer for the events of one device, from its compute and transfer threads. Thread-safe.
///
/// Bounded: events beyond `capacity` are counted but dropped. Disabled until enable(true); record()
/// does nothing while disabled.
class TraceRecorder {
 public:
  explicit TraceRecorder(std::size_t capacity = 1 << 16) : capacity_(capacity) {}

  void enable(bool on);
  /// Returns true if enabled. Check it first if building the event is expensive.
  bool enabled() const;
  void record(TraceEvent event);
  /// Returns and removes the events recorded since the last take, in order of recording. `dropped`
  /// receives the number of dropped events.
  std::vector<TraceEvent> take(std::uint64_t* dropped = nullptr);

 private:
  const std::size_t capacity_;
  mutable std::mutex mutex_;  // guards all members below
  bool enabled_ = false;
  std::vector<TraceEvent> events_;
  std::uint64_t dropped_ = 0;
};

}  // namespace weft

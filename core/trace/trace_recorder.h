#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "core/trace/trace_event.h"

namespace weft {

/// Collects the events of one device: of its compute thread and of its transfer thread. Any thread.
///
/// Bounded: beyond `capacity` events are counted, not kept. Off until enable(true); while off,
/// record() does nothing.
class TraceRecorder {
 public:
  explicit TraceRecorder(std::size_t capacity = 1 << 16) : capacity_(capacity) {}

  void enable(bool on);
  /// Ask first where building the event costs something.
  bool enabled() const;
  void record(TraceEvent event);
  /// Hands out what was recorded since the last take, in order of recording, and how many were
  /// dropped.
  std::vector<TraceEvent> take(std::uint64_t* dropped = nullptr);

 private:
  const std::size_t capacity_;
  mutable std::mutex mutex_;  // guards all below
  bool enabled_ = false;
  std::vector<TraceEvent> events_;
  std::uint64_t dropped_ = 0;
};

}  // namespace weft

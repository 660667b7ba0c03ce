#include "core/trace/trace_recorder.h"

#include <utility>

namespace weft {

void TraceRecorder::enable(bool on) {
  const std::lock_guard lock(mutex_);
  enabled_ = on;
}

bool TraceRecorder::enabled() const {
  const std::lock_guard lock(mutex_);
  return enabled_;
}

void TraceRecorder::record(TraceEvent event) {
  const std::lock_guard lock(mutex_);
  if (!enabled_) return;
  if (events_.size() >= capacity_) {
    ++dropped_;
    return;
  }
  events_.push_back(std::move(event));
}

std::vector<TraceEvent> TraceRecorder::take(std::uint64_t* dropped) {
  const std::lock_guard lock(mutex_);
  if (dropped) *dropped = dropped_;
  dropped_ = 0;
  return std::exchange(events_, {});
}

}  // namespace weft

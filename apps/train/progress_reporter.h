#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "actors/head/cluster_messages.h"
#include "core/base/clock.h"

namespace weft::apps {

/// Reporter of a run's progress to the head, at most once a second. The last step is always
/// reported. Used by the driver's thread only.
class ProgressReporter final {
 public:
  using OnProgress = std::function<void(const actors::RunProgress&)>;
  /// `on_progress` may be empty.
  explicit ProgressReporter(OnProgress on_progress) : on_progress_(std::move(on_progress)) {}

  void report(const actors::RunProgress& progress, TimePoint now) {
    pending_ = progress;
    const bool is_last = progress.step == progress.total_steps;
    if (reported_at_ && now - *reported_at_ < std::chrono::seconds(1) && !is_last) return;
    reported_at_ = now;
    flush_progress();
  }
  /// Reports the newest step if the rate limit held it back.
  void flush_progress() {
    if (on_progress_ && pending_) on_progress_(*pending_);
    pending_.reset();
  }
  /// Drops the unreported step; call when training rolls back.
  void discard_pending() { pending_.reset(); }

 private:
  const OnProgress on_progress_;
  std::optional<TimePoint> reported_at_;
  std::optional<actors::RunProgress> pending_;
};

}  // namespace weft::apps

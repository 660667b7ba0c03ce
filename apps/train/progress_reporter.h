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
  using Tell = std::function<void(const actors::RunProgress&)>;
  /// `tell` may be empty.
  explicit ProgressReporter(Tell tell) : tell_(std::move(tell)) {}

  void tell(const actors::RunProgress& progress, TimePoint now) {
    untold_ = progress;
    const bool is_last = progress.step == progress.total_steps;
    if (told_ && now - *told_ < std::chrono::seconds(1) && !is_last) return;
    told_ = now;
    flush_progress();
  }
  /// Reports the newest step if the rate limit held it back.
  void flush_progress() {
    if (tell_ && untold_) tell_(*untold_);
    untold_.reset();
  }
  /// Drops the unreported step; call when training rolls back.
  void forget() { untold_.reset(); }

 private:
  const Tell tell_;
  std::optional<TimePoint> told_;
  std::optional<actors::RunProgress> untold_;
};

}  // namespace weft::apps

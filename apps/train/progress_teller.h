#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "actors/head/cluster_messages.h"
#include "core/base/clock.h"

namespace weft::apps {

/// Tells others, who ask the head, how far a run is: at most once a second, and at its end the
/// newest step, which that limit may have held back. The driver's thread only.
class ProgressTeller final {
 public:
  using Tell = std::function<void(const actors::RunProgress&)>;
  /// `tell` may be empty.
  explicit ProgressTeller(Tell tell) : tell_(std::move(tell)) {}

  void tell(const actors::RunProgress& progress, TimePoint now) {
    untold_ = progress;
    const bool is_last = progress.step == progress.total_steps;
    if (told_ && now - *told_ < std::chrono::seconds(1) && !is_last) return;
    told_ = now;
    tell_the_last();
  }
  /// Tells the newest step if it has not been told.
  void tell_the_last() {
    if (tell_ && untold_) tell_(*untold_);
    untold_.reset();
  }
  /// Training goes back: the newest step comes again.
  void forget() { untold_.reset(); }

 private:
  const Tell tell_;
  std::optional<TimePoint> told_;
  std::optional<actors::RunProgress> untold_;
};

}  // namespace weft::apps

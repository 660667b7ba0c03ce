#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "actors/supervision/exit_evidence.h"
#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Something that a supervisor must react to.
struct SupervisorEvent {
  enum class Kind {
    kDriverEnded,
    kDriverStopped,
    kHeadDied,
    kHeadBack,
    kHostDied,
    kSignal,            ///< Somebody wants the run to end.
    kCheckpointWanted,  ///< SIGUSR1.
  };
  Kind kind = Kind::kSignal;
  std::string host;
  ExitEvidence evidence;
};

/// What has happened, from the threads that see it to the one that reacts. Any thread.
class SupervisorEvents {
 public:
  void add(SupervisorEvent event) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(event));
    changed_.notify_all();
  }
  /// The oldest. Nothing when none comes in time; without a time it waits.
  std::optional<SupervisorEvent> next(std::optional<TimePoint> until) {
    std::unique_lock lock(mutex_);
    const auto some = [&] { return !queue_.empty(); };
    if (!until) changed_.wait(lock, some);
    else if (!changed_.wait_until(lock, *until, some)) return std::nullopt;
    SupervisorEvent first = std::move(queue_.front());
    queue_.pop_front();
    return first;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  std::deque<SupervisorEvent> queue_;  // guarded by mutex_
};

}  // namespace weft::actors

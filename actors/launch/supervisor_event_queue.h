#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "actors/supervision/exit_report.h"
#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Event that a supervisor must react to.
struct SupervisorEvent {
  enum class Kind {
    kDriverEnded,
    kDriverStopped,
    kHeadDied,
    kHeadBack,
    kHostDied,
    kSignal,            ///< Request to end the run.
    kCheckpointWanted,  ///< SIGUSR1.
  };
  Kind kind = Kind::kSignal;
  std::string host;
  ExitReport evidence;
};

/// Queue of events, from the threads that see them to the thread that reacts. Any thread.
class SupervisorEventQueue {
 public:
  void add(SupervisorEvent event) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(event));
    changed_.notify_all();
  }
  /// Returns the oldest event; nullopt if none comes by `until`. Without `until` waits forever.
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

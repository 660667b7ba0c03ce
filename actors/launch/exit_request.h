#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "core/base/thread.h"

namespace weft::actors {

/// Exit status of a run that SIGINT or SIGTERM ended, as shells report it.
inline constexpr int kInterrupted = 130;

/// Request to end this process: set once by anyone with a reason, awaited by main(). Any thread.
class ExitRequest {
 public:
  struct Reason {
    int status = 0;
    std::string text;
  };
  /// Sets the reason, if there is none yet.
  void set(int status, std::string text) {
    std::lock_guard lock(mutex_);
    if (!reason_) reason_ = Reason{status, std::move(text)};
    changed_.notify_all();
  }
  /// Blocks for at most `within`. Returns true if there is a reason.
  bool wait_for(Nanoseconds within) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, within, [&] { return reason_.has_value(); });
  }
  Reason wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reason_.has_value(); });
    return *reason_;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  std::optional<Reason> reason_;  // guarded by mutex_
};

}  // namespace weft::actors

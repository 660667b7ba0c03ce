#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "core/base/thread.h"

namespace weft::actors {

/// The exit status of a run that SIGINT or SIGTERM ended, as a shell says it.
inline constexpr int kInterrupted = 130;

/// How a process is to end: set once by whoever has a reason, waited for by main(). Any thread.
class ProcessEnd {
 public:
  struct Reason {
    int status = 0;
    std::string text;
  };
  /// The first reason counts.
  void set(int status, std::string text) {
    std::lock_guard lock(mutex_);
    if (!reason_) reason_ = Reason{status, std::move(text)};
    changed_.notify_all();
  }
  /// Whether there is a reason by then.
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

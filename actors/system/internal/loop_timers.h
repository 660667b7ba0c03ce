#pragma once

#include <functional>
#include <memory>
#include <set>

#include "actors/net/event_loop.h"

namespace weft::actors {

/// Callbacks that a loop runs later, once or repeatedly. Any thread, except clear().
class LoopTimers final {
 public:
  explicit LoopTimers(EventLoop& loop) : loop_(loop) {}

  void run_after(Nanoseconds delay, std::function<void()> callback);
  void run_every(Nanoseconds interval, std::function<void()> callback);
  /// Cancels all callbacks. Loop's thread, or after the loop has stopped.
  void clear() { timers_.clear(); }

 private:
  void repeat(Nanoseconds interval, const std::shared_ptr<std::function<void()>>& callback);

  EventLoop& loop_;
  // Loop's thread only. Shared with the callback that creates a timer.
  std::set<std::shared_ptr<Timer>> timers_;
};

}  // namespace weft::actors

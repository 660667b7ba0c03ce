#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "actors/net/event_loop.h"

namespace weft::actors {

/// Callbacks that a loop runs later, once or repeatedly. Any thread, except clear().
class LoopTimers final {
 public:
  explicit LoopTimers(EventLoop& loop) : loop_(loop) {}

  /// Runs `callback` once. Returns an id for cancel().
  std::uint64_t run_after(Nanoseconds delay, std::function<void()> callback);
  void run_every(Nanoseconds interval, std::function<void()> callback);
  /// Cancels a callback, unless it has run or runs now.
  void cancel(std::uint64_t id);
  /// Cancels all callbacks. Loop's thread, or after the loop has stopped.
  void clear() { timers_.clear(); }

 private:
  void repeat(Nanoseconds interval, const std::shared_ptr<std::function<void()>>& callback);

  EventLoop& loop_;
  std::atomic<std::uint64_t> last_id_{0};
  std::map<std::uint64_t, std::unique_ptr<Timer>> timers_;  // loop's thread only
};

}  // namespace weft::actors

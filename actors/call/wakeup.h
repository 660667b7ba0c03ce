#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "actors/call/call_frame.h"
#include "core/base/clock.h"

namespace weft::actors {

/// Flag with which any thread wakes a handler: notify() sets it, wait() takes it.
///
///   transfers.on_complete([wakeup = wakeup_] { wakeup.notify(); });   // the transfer thread
///   while (!done()) co_await wakeup_.wait();                          // the handler
///
/// A notify() before wait() is kept; several count as one. Copies share the flag. notify(): any
/// thread, also after the actor's end. wait(), wait_for(): the actor's thread, one waiter at a
/// time.
class Wakeup final {
 public:
  using Schedule = std::function<void(Nanoseconds, std::function<void()>)>;
  /// Uses `schedule` to run a function later, for wait_for(). Call Context::make_wakeup() instead.
  explicit Wakeup(Schedule schedule);

  void notify() const;

  class Waiting;
  /// Returns an awaitable that ends when notified and throws Error(kCancelled) on cancellation.
  Waiting wait() const;
  /// Like wait(), but co_await returns false if `time` passes first.
  Waiting wait_for(Nanoseconds time) const;

 private:
  enum class Cause { kNotified, kTimedOut, kCancelled };
  struct State;
  static void wake(State& state, Cause cause, std::optional<std::uint64_t> wait);

  // shared with notifiers, which may outlive the actor
  std::shared_ptr<State> state_;
};

/// Awaitable of wait() and wait_for().
class Wakeup::Waiting final {
 public:
  Waiting(std::shared_ptr<State> state, std::optional<Nanoseconds> time)
      : state_(std::move(state)), time_(time) {}
  bool await_ready();
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    return suspend(handle, *handle.promise().frame);
  }
  bool await_resume();

 private:
  bool suspend(std::coroutine_handle<> handle, CallFrame& frame);

  std::shared_ptr<State> state_;
  std::optional<Nanoseconds> time_;
};

}  // namespace weft::actors

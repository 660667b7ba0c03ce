#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "actors/call/call_frame.h"
#include "core/base/clock.h"

namespace weft::actors {

/// Lets another thread wake a handler: a flag that notify() sets and one waiting handler takes.
///
///   transfers.on_complete([wakeup = wakeup_] { wakeup.notify(); });   // the transfer thread
///   while (!done()) co_await wakeup_.wait();                          // the handler
///
/// A notify() that comes before wait() is not lost; several are one. Copies share the flag.
/// notify(): any thread, also after the actor is gone. wait(), wait_for(): the actor's thread, one
/// waiter at a time.
class Wakeup final {
 public:
  using Schedule = std::function<void(Nanoseconds, std::function<void()>)>;
  /// `schedule` runs something later, for wait_for(). From Context::make_wakeup().
  explicit Wakeup(Schedule schedule);

  void notify() const;

  class Waiting;
  /// co_await: returns when notified; throws Error(kCancelled) when the call is cancelled.
  Waiting wait() const;
  /// As wait(); false when the time ran out first.
  Waiting wait_for(Nanoseconds time) const;

 private:
  enum class Cause { kNotified, kTimedOut, kCancelled };
  struct State;
  static void wake(State& state, Cause cause, std::optional<std::uint64_t> wait);

  // shared with whoever notifies, who may come after the actor's end
  std::shared_ptr<State> state_;
};

/// One co_await of a Wakeup.
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

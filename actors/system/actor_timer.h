#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "actors/mailbox/mailbox.h"
#include "core/base/clock.h"

namespace weft::actors {

class LoopTimers;

/// Timer of an actor, from Context::after() or Context::every(). Its task runs on the actor's
/// thread, between handlers or while one is suspended, but not beside a `blocking` one. It ends
/// when it is cancelled or destroyed, and with the actor.
///
///   beat_ = context.every(1s, [this] { publish(); });   // a member of the actor
///
/// Move-only. The actor's thread only.
class [[nodiscard]] ActorTimer final {
 public:
  /// Makes a timer that does not run.
  ActorTimer() = default;
  ~ActorTimer() { cancel(); }
  ActorTimer(ActorTimer&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  ActorTimer& operator=(ActorTimer&& other) noexcept {
    if (this == &other) return *this;
    cancel();
    state_ = std::exchange(other.state_, nullptr);
    return *this;
  }

  /// Ends the timer: its task does not run again. The task itself may call this.
  void cancel();
  /// Returns true if the task will run.
  bool active() const;

 private:
  friend class Context;
  struct State;
  /// `interval`: zero if the task runs once.
  ActorTimer(LoopTimers& timers, std::weak_ptr<Mailbox> mailbox, Nanoseconds first,
             Nanoseconds interval, std::function<void()> task);
  static void start(const std::shared_ptr<State>& state);
  static void fire(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;  // shared with its task while that runs
};

}  // namespace weft::actors

#include "actors/system/actor_timer.h"

#include <algorithm>

#include "actors/system/internal/loop_timers.h"

namespace weft::actors {

/// State of a timer. The actor's thread only.
struct ActorTimer::State {
  LoopTimers& timers;
  // weak: a timer does not keep the mailbox of an actor that has ended
  const std::weak_ptr<Mailbox> mailbox;
  const Nanoseconds interval;
  const std::function<void()> task;
  TimePoint due;
  bool active = true;
  std::uint64_t started = 0;  // id of the loop's timer
};

ActorTimer::ActorTimer(LoopTimers& timers, std::weak_ptr<Mailbox> mailbox, Nanoseconds first,
                       Nanoseconds interval, std::function<void()> task)
    : state_(new State{timers, std::move(mailbox), interval, std::move(task),
                       SteadyClock().now() + first}) {
  start(state_);
}

void ActorTimer::start(const std::shared_ptr<State>& state) {
  const Nanoseconds left = std::max(Nanoseconds::zero(), state->due - SteadyClock().now());
  // Holds no state: the actor's thread destroys it, with the captures of the user's task.
  const std::weak_ptr<State> kept = state;
  state->started = state->timers.run_after(left, [kept, weak_mailbox = state->mailbox] {
    const auto mailbox = weak_mailbox.lock();
    if (!mailbox) return;
    mailbox->post([kept] {
      if (const auto alive = kept.lock()) fire(alive);
    });
  });
}

void ActorTimer::fire(const std::shared_ptr<State>& state) {
  if (!state->active) return;
  if (state->interval == Nanoseconds::zero()) {
    state->active = false;
  } else {
    // Started here, and not when the last one was due: a busy actor queues one task at most.
    const Nanoseconds late = SteadyClock().now() - state->due;
    state->due += state->interval * (late / state->interval + 1);
    start(state);
  }
  state->task();
}

void ActorTimer::cancel() {
  if (!active()) return;
  state_->active = false;
  state_->timers.cancel(state_->started);
}

bool ActorTimer::active() const { return state_ && state_->active; }

}  // namespace weft::actors

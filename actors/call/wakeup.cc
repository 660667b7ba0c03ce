#include "actors/call/wakeup.h"

#include "core/base/check.h"
#include "core/base/thread.h"

namespace weft::actors {

struct Wakeup::State {
  Schedule schedule;
  Mutex mutex;  // guards the members below
  bool notified = false;
  // number of the current wait, so that a late timer does not end the next wait
  std::uint64_t waits = 0;
  std::shared_ptr<Mailbox> mailbox;  // mailbox of the waiting handler; null if none waits
  Resumption waiter;
  Cause cause = Cause::kNotified;
};

Wakeup::Wakeup(Schedule schedule) : state_(std::make_shared<State>()) {
  state_->schedule = std::move(schedule);
}

void Wakeup::wake(State& state, Cause cause, std::optional<std::uint64_t> wait) {
  std::shared_ptr<Mailbox> mailbox;
  Resumption waiter;
  {
    const std::lock_guard lock(state.mutex);
    if (wait && *wait != state.waits) return;
    if (!state.mailbox) {
      if (cause == Cause::kNotified) state.notified = true;
      return;
    }
    mailbox = std::move(state.mailbox);
    state.mailbox = nullptr;
    waiter = state.waiter;
    state.cause = cause;
  }
  mailbox->resume(waiter);
}

void Wakeup::notify() const { wake(*state_, Cause::kNotified, std::nullopt); }

Wakeup::Waiting Wakeup::wait() const { return {state_, std::nullopt}; }
Wakeup::Waiting Wakeup::wait_for(Nanoseconds time) const { return {state_, time}; }

bool Wakeup::Waiting::await_ready() {
  const std::lock_guard lock(state_->mutex);
  WEFT_CHECK(!state_->mailbox, "two handlers wait for one Wakeup");
  state_->cause = Cause::kNotified;
  return std::exchange(state_->notified, false);
}

bool Wakeup::Waiting::suspend(std::coroutine_handle<> handle, CallFrame& frame) {
  std::uint64_t wait = 0;
  {
    const std::lock_guard lock(state_->mutex);
    if (std::exchange(state_->notified, false)) return false;
    wait = ++state_->waits;
    state_->waiter = {handle, &frame};
    state_->mailbox = frame.mailbox();
  }
  // Another thread may queue the resumption from here on. The actor's thread takes it only after
  // this function returns.
  if (!frame.set_cancel_callback(
          [state = state_, wait] { wake(*state, Cause::kCancelled, wait); })) {
    const std::lock_guard lock(state_->mutex);
    if (!state_->mailbox) return true;  // already woken: the resumption is queued
    state_->mailbox = nullptr;
    state_->cause = Cause::kCancelled;
    return false;
  }
  if (time_)
    state_->schedule(*time_, [state = state_, wait] { wake(*state, Cause::kTimedOut, wait); });
  return true;
}

bool Wakeup::Waiting::await_resume() {
  const std::lock_guard lock(state_->mutex);
  if (state_->cause == Cause::kCancelled)
    throw Error(ErrorCode::kCancelled, "the call was cancelled while it waited");
  return state_->cause == Cause::kNotified;
}

}  // namespace weft::actors

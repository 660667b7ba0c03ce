#include "actors/link/route.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/call/call_frame.h"
#include "core/base/thread.h"

namespace weft::actors {

void lose_call(const std::shared_ptr<CallState>& call, const Error& why) {
  if (!call->owner.resend(call, why)) call->fail(with_call_outcome(why, *call));
}

/// Wait of a `blocking` handler for space, which its cancellation ends. The cancellation may last
/// longer than the wait.
class Route::CancellableWait final {
 public:
  explicit CancellableWait(Route& route) : route_(&route) {}
  /// Wakes the waiting thread. Any thread without the lock of a route.
  void interrupt() {
    const std::lock_guard lock(mutex_);
    if (route_ == nullptr) return;
    // The waiting thread looks at its call under this lock.
    const std::lock_guard route_lock(route_->mutex_);
    route_->queue_space_.notify_all();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    route_ = nullptr;
  }

 private:
  Mutex mutex_;
  Route* route_;  // guarded; null once the wait is over
};

bool Route::send(OutgoingCall outgoing) {
  std::unique_lock lock(mutex_);
  if (const auto problem = wait_for_queue_space(lock, outgoing)) {
    lock.unlock();
    if (outgoing.state)
      outgoing.state->fail(Error(
          problem->code, fmt::format("the call '{}' of {} was not sent: {}", outgoing.state->method,
                                     outgoing.state->target->label, problem->text)));
    return false;
  }
  if (closed_) {
    const Error error = *closed_;
    lock.unlock();
    if (outgoing.state) lose_call(outgoing.state, error);
    return false;
  }
  const bool answer_awaited = outgoing.state != nullptr;
  transmit_or_hold(std::move(outgoing));
  finish(lock, answer_awaited);
  return true;
}

std::optional<Route::Problem> Route::wait_for_queue_space(std::unique_lock<Mutex>& lock,
                                                          const OutgoingCall& outgoing) {
  const auto has_space = [&] {
    return closed_ || outgoing.call.urgent || outgoing.has_waited ||
           targets_[outgoing.call.actor].held.size() < kMaxHeldCalls;
  };
  if (has_space()) return std::nullopt;
  if (on_actor_thread())
    return Problem{ErrorCode::kResourceExhausted,
                   "its mailbox is full and this handler has too many calls waiting; await their "
                   "results before calling again"};
  bool space = false;
  if (CallFrame* const call = blocking_call()) {
    const auto wait = std::make_shared<CancellableWait>(*this);
    call->set_cancel_callback([wait] { wait->interrupt(); });
    space = queue_space_.wait_until(lock, outgoing.deadline,
                                    [&] { return has_space() || call->cancelled(); });
    // Without the lock, as a cancellation that is under way needs it. Others may take the space
    // meanwhile: each such thread then exceeds the limit by one call.
    lock.unlock();
    call->clear_cancel_callback();
    wait->end();
    lock.lock();
    if (call->cancelled())
      return Problem{ErrorCode::kCancelled, "the handler that calls it was cancelled"};
  } else {
    space = queue_space_.wait_until(lock, outgoing.deadline, has_space);
  }
  if (space) return std::nullopt;
  return Problem{
      ErrorCode::kResourceExhausted,
      "its mailbox was full until the call's deadline; the actor is overloaded or blocked"};
}

void Route::transmit_or_hold(OutgoingCall&& outgoing) {
  const ActorId actor = outgoing.call.actor;
  Target& target = targets_[actor];
  if (outgoing.call.urgent) {
    if (open_) transmit_now(target, outgoing);
    else target.held_urgent.push_back(std::move(outgoing));
  } else if (open_ && target.held.empty() && target.window.admits(outgoing.call.arguments.size())) {
    transmit_now(target, outgoing);
  } else {
    target.held.push_back(std::move(outgoing));
    request_credit_if_held(actor, target);
  }
}

void Route::transmit_now(Target& target, OutgoingCall& outgoing) {
  // the call has timed out or was cancelled
  if (outgoing.state && outgoing.state->done()) return;
  if (!outgoing.call.urgent) target.window.sent(outgoing.call.arguments.size());
  if (outgoing.state) outgoing.state->sent = true;
  if (auto error = transmit(outgoing); error && outgoing.state)
    failed_.emplace_back(std::move(outgoing.state), std::move(*error));
}

void Route::request_credit_if_held(ActorId actor, Target& target) {
  if (!open_ || target.held.empty() || std::exchange(target.credit_requested, true)) return;
  credit_requests_.push_back(actor);
}

void Route::release(ActorId actor, Target& target) {
  for (; !target.held_urgent.empty(); target.held_urgent.pop_front())
    transmit_now(target, target.held_urgent.front());
  for (; !target.held.empty() && target.window.admits(target.held.front().call.arguments.size());
       target.held.pop_front())
    transmit_now(target, target.held.front());
  request_credit_if_held(actor, target);
}

void Route::finish(std::unique_lock<Mutex>& lock, bool answer_awaited) {
  const bool ready = open_;
  auto failed = std::exchange(failed_, {});
  const auto actors = std::exchange(credit_requests_, {});
  lock.unlock();
  for (const ActorId actor : actors) request_credit(actor);
  if (ready) flush(answer_awaited);
  for (auto& [state, error] : failed)
    state->fail(std::move(error), CallState::ErrorSource::kRefusal);
}

void Route::on_credit(const Credit& credit) {
  std::unique_lock lock(mutex_);
  const auto found = targets_.find(credit.actor);
  if (found == targets_.end()) return;
  if (!found->second.window.update(credit.consumed_messages, credit.consumed_bytes,
                                   credit.window_messages, credit.window_bytes))
    return;
  found->second.credit_requested = false;
  if (!open_ || found->second.held.empty()) return;
  release(credit.actor, found->second);
  queue_space_.notify_all();
  finish(lock, true);
}

bool Route::withdraw(ActorId actor, std::uint64_t call_id) {
  const std::lock_guard lock(mutex_);
  const auto found = targets_.find(actor);
  if (found == targets_.end()) return false;
  for (auto* queue : {&found->second.held, &found->second.held_urgent}) {
    const auto call = std::find_if(queue->begin(), queue->end(), [&](const OutgoingCall& each) {
      return each.call.id == call_id;
    });
    if (call == queue->end()) continue;
    queue->erase(call);
    queue_space_.notify_all();
    return true;
  }
  return false;
}

void Route::open() {
  std::unique_lock lock(mutex_);
  if (closed_) return;
  open_ = true;
  for (auto& [actor, target] : targets_) release(actor, target);
  queue_space_.notify_all();
  finish(lock, true);
}

void Route::suspend() {
  const std::lock_guard lock(mutex_);
  open_ = false;
  for (auto& [actor, target] : targets_) target.credit_requested = false;
}

void Route::close(const Error& reason) {
  std::vector<std::shared_ptr<CallState>> held;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = reason;
    open_ = false;
    for (auto& [actor, target] : targets_)
      for (auto* queue : {&target.held_urgent, &target.held})
        for (OutgoingCall& each : *queue)
          if (each.state) held.push_back(std::move(each.state));
    targets_.clear();
  }
  queue_space_.notify_all();
  for (const auto& state : held) lose_call(state, reason);
}

std::size_t Route::held() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& [actor, target] : targets_)
    count += target.held.size() + target.held_urgent.size();
  return count;
}

}  // namespace weft::actors

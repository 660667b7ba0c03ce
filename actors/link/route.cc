#include "actors/link/route.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/call/call_frame.h"
#include "core/base/thread.h"

namespace weft::actors {

namespace {

/// Returns true for calls that need no credit: the earlier ones have it, or wait for this one.
bool overtakes(const Call& call) {
  return call.urgent || call.order.kind != CallOrder::Kind::kCall;
}

/// Replaces a numbered call that has ended by a message that takes its place.
void make_skip(OutgoingCall& outgoing) {
  outgoing.state = nullptr;
  outgoing.needs_minor = 0;
  outgoing.call.id = 0;
  outgoing.call.interface_fingerprint = 0;
  outgoing.call.method = 0;
  outgoing.call.arguments.clear();
  outgoing.call.order.kind = CallOrder::Kind::kSkip;
}

}  // namespace

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
      outgoing.state->fail(
          Error(problem->code,
                fmt::format("the call '{}' of {} was not sent: {}", outgoing.state->method,
                            outgoing.state->target->label, problem->text)),
          CallProgress::kNotSent);
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
    return closed_ || overtakes(outgoing.call) || outgoing.has_waited ||
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
  if (overtakes(outgoing.call)) {
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
  if (outgoing.state && outgoing.state->done()) {  // timed out or cancelled
    if (outgoing.call.order.number == 0) return;
    make_skip(outgoing);
  }
  Lane& lane = target.lanes[outgoing.call.urgent ? 1 : 0];
  lane.used = true;
  if (lane.last_number != 0 && outgoing.call.order.number == 0)
    outgoing.call.order = {stream_, ++lane.last_number};
  if (!overtakes(outgoing.call)) target.window.sent(outgoing.call.arguments.size());
  if (outgoing.state) outgoing.state->sent = true;
  if (outgoing.carried) outgoing.carried->leave(outgoing.call.arguments);
  if (auto error = transmit(outgoing); error && outgoing.state)
    failed_.push_back({std::move(outgoing.state), std::move(*error), outgoing.call.actor});
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
  for (RefusedCall& each : failed) refuse(each);
}

void Route::refuse(RefusedCall& refused) {
  if (refused.error.code() == ErrorCode::kStaleEpoch) {
    refused.state->sent = false;
    const bool resent = refused.state->owner.resend(refused.state, refused.error);
    return_held(refused.actor, refused.error);
    if (resent) return;
  }
  refused.state->fail(std::move(refused.error), CallProgress::kNotStarted);
}

void Route::return_held(ActorId actor, const Error& reason) {
  std::vector<std::shared_ptr<CallState>> held;
  {
    const std::lock_guard lock(mutex_);
    const auto found = targets_.find(actor);
    if (found == targets_.end()) return;
    for (auto* queue : {&found->second.held_urgent, &found->second.held}) {
      for (OutgoingCall& each : *queue)
        if (each.state) held.push_back(std::move(each.state));
      // Numbers without a call, too: the actor has ended, and takes none.
      queue->clear();
    }
    // The ended actor grants no credit. A call that is sent to it late is refused at once.
    found->second.window = SendWindow();
    found->second.credit_requested = false;
    queue_space_.notify_all();
  }
  for (const auto& state : held) lose_call(state, reason);
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
    if (call->call.order.number != 0) make_skip(*call);
    else queue->erase(call);
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
  suspended_ = true;
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

std::optional<CallOrder> Route::reserve_relayed(const Call& call, std::size_t bytes) {
  std::unique_lock lock(mutex_);
  if (closed_ || suspended_ || stream_ == 0) return std::nullopt;
  Target& target = targets_[call.actor];
  Lane& lane = target.lanes[call.urgent ? 1 : 0];
  if (!(call.urgent ? target.held_urgent : target.held).empty() || lane.relayed >= kMaxRelayed ||
      (lane.relayed > 0 && lane.relayed_bytes + bytes > kInitialBytes))
    return std::nullopt;
  ++lane.relayed;
  lane.relayed_bytes += bytes;
  const bool is_first = lane.last_number == 0;
  if (!is_first || !lane.used)
    return CallOrder{stream_, ++lane.last_number, CallOrder::Kind::kCall};
  // Calls without a number are on their way. What is written behind them is number 1.
  OutgoingCall marker;
  marker.call.actor = call.actor;
  marker.call.urgent = call.urgent;
  marker.call.order = {stream_, ++lane.last_number, CallOrder::Kind::kSkip};
  transmit_or_hold(std::move(marker));
  const CallOrder order{stream_, ++lane.last_number, CallOrder::Kind::kCall};
  finish(lock, false);
  return order;
}

void Route::end_stream(std::uint64_t ended, std::uint64_t next) {
  const std::lock_guard lock(mutex_);
  if (stream_ != ended) return;
  stream_ = next;
  for (auto& [actor, target] : targets_)
    for (Lane& lane : target.lanes) {
      // What has left with an old number may come before the next call, which waits for a marker.
      lane.used = lane.used || lane.last_number != 0;
      lane.last_number = 0;
    }
}

void Route::relay_done(ActorId actor, bool urgent, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = targets_.find(actor);
  if (found == targets_.end()) return;  // closed
  Lane& lane = found->second.lanes[urgent ? 1 : 0];
  if (lane.relayed == 0) return;
  --lane.relayed;
  lane.relayed_bytes -= bytes;
}

std::size_t Route::held() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& [actor, target] : targets_)
    count += target.held.size() + target.held_urgent.size();
  return count;
}

}  // namespace weft::actors

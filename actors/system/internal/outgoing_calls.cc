#include "actors/system/internal/outgoing_calls.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/units.h"

namespace weft::actors {

namespace {

void check_size(const Call& call, const ActorAddress& target, const char* method) {
  if (call.arguments.size() > kMaxMessageBytes)
    throw_error(ErrorCode::kInvalidArgument,
                "the arguments of '{}' for {} take {}; the limit is {}: tensors and files travel "
                "by transfer, not in calls",
                method, target.label, format_bytes(call.arguments.size()),
                format_bytes(kMaxMessageBytes));
}

}  // namespace

std::shared_ptr<Route> OutgoingCalls::route_to(const ProcessRef& process) {
  if (process.id == identity_.id()) return local_;
  return dialer_.link_to(process);
}

std::shared_ptr<CallState> OutgoingCalls::call(const std::shared_ptr<const ActorAddress>& target,
                                               const char* method, Call call, Nanoseconds within) {
  check_size(call, *target, method);
  if (within == kDefaultDeadline) within = options_.default_deadline;
  const TimePoint now = SteadyClock().now();
  const TimePoint deadline = within == kNoDeadline ? TimePoint::max() : now + within;
  auto state = std::make_shared<CallState>(*this, target, method, deadline);
  state->calling_actor = current_actor();
  state->began = now;
  if (pending_.add(state)) arm_deadlines(deadline);
  call.id = state->id;
  try {
    route_to(target->process)->send({std::move(call), state, deadline});
  } catch (const Error& error) {
    state->fail(with_call_outcome(error, *state));
  }
  return state;
}

bool OutgoingCalls::tell(const std::shared_ptr<const ActorAddress>& target, Call call) {
  check_size(call, *target, "tell");
  try {
    return route_to(target->process)
        ->send({std::move(call), nullptr, SteadyClock().now() + options_.default_deadline});
  } catch (const Error&) {
    return false;  // dead, or not reachable
  }
}

void OutgoingCalls::finish(Reply reply) {
  const auto state = pending_.take(reply.id);
  if (!state) return;  // timed out or cancelled before
  if (auto* error = std::get_if<Error>(&reply.result)) state->fail(std::move(*error));
  else state->complete(std::get<std::vector<std::byte>>(std::move(reply.result)));
}

void OutgoingCalls::withdraw(const CallState& call) {
  pending_.take(call.id);
  const ActorAddress& target = *call.target;
  if (target.process.id == identity_.id()) {
    if (local_->withdraw(target.actor, call.id)) return;
    if (const auto host = actors_.find(target.actor)) host->cancel(local_.get(), call.id);
    return;
  }
  const auto link = links_.find(target.process.id);
  if (link && !link->withdraw(target.actor, call.id)) link->send_cancel(call.id);
}

void OutgoingCalls::fail_all_of(ProcessId process, const Error& reason) {
  for (const auto& state : pending_.take_all_of(process))
    state->fail(with_call_outcome(reason, *state));
}

void OutgoingCalls::cancel_all_of(ProcessId process, const Error& reason) {
  for (const auto& state : pending_.take_all_of(process))
    if (state->fail(with_call_outcome(reason, *state))) withdraw(*state);
}

void OutgoingCalls::fail_all(const Error& reason) {
  for (const auto& state : pending_.take_all()) state->fail(with_call_outcome(reason, *state));
}

void OutgoingCalls::arm_deadlines(TimePoint at) {
  loop_.post([this, at] {
    if (at >= deadline_armed_ || deadlines_stopped_) return;
    deadline_armed_ = at;
    if (!deadline_timer_) deadline_timer_ = std::make_unique<Timer>(loop_);
    deadline_timer_->start(at, [this] { expire(); });
  });
}

void OutgoingCalls::expire() {
  deadline_armed_ = TimePoint::max();
  TimePoint next = TimePoint::max();
  for (const auto& state : pending_.take_expired(SteadyClock().now(), next)) {
    const Error error(
        ErrorCode::kDeadlineExceeded,
        fmt::format("the call '{}' of {} on {} had no result by its deadline; it {}", state->method,
                    state->target->label, state->target->process.name, state->outcome()));
    if (state->fail(error)) withdraw(*state);
  }
  if (next != TimePoint::max()) arm_deadlines(next);
}

void OutgoingCalls::stop_deadlines() {
  deadlines_stopped_ = true;
  deadline_timer_.reset();
}

}  // namespace weft::actors

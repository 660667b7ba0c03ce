// The System's calls: sending, replies, deadlines, cancellation.

#include <fmt/format.h>

#include "actors/system/internal/runtime.h"
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

std::shared_ptr<CallState> System::Impl::call(const std::shared_ptr<const ActorAddress>& target,
                                              const char* method_name, Call call,
                                              Nanoseconds within) {
  check_size(call, *target, method_name);
  if (within == kDefaultDeadline) within = options.default_deadline;
  const TimePoint now = SteadyClock().now();
  const TimePoint deadline = within == kNoDeadline ? TimePoint::max() : now + within;
  auto state = std::make_shared<CallState>(*this, target, method_name, deadline);
  state->calling_actor = current_actor();
  state->began = now;
  if (pending.add(state)) arm_deadlines(deadline);
  call.id = state->id;
  try {
    route_to(target->process)->send({std::move(call), state, deadline});
  } catch (const Error& error) {
    state->fail(with_call_outcome(error, *state));
  }
  return state;
}

bool System::Impl::tell(const std::shared_ptr<const ActorAddress>& target, Call call) {
  check_size(call, *target, "tell");
  try {
    return route_to(target->process)
        ->send({std::move(call), nullptr, SteadyClock().now() + options.default_deadline});
  } catch (const Error&) {
    return false;  // dead, or not reachable
  }
}

void System::Impl::finish(Reply reply) {
  const auto state = pending.take(reply.id);
  if (!state) return;  // timed out or cancelled before
  if (auto* error = std::get_if<Error>(&reply.result)) state->fail(std::move(*error));
  else state->complete(std::get<std::vector<std::byte>>(std::move(reply.result)));
}

void System::Impl::withdraw(const CallState& call) {
  pending.take(call.id);
  const ProcessRef& process = call.target->process;
  if (process.id == self.process.id) {
    if (local->withdraw(call.target->actor, call.id)) return;
    if (const auto host = find_host(call.target->actor)) host->cancel(local.get(), call.id);
    return;
  }
  std::shared_ptr<Link> link;
  {
    const std::lock_guard lock(routes_mutex);
    const auto found = links.find(process.id);
    if (found != links.end()) link = found->second;
  }
  if (link && !link->withdraw(call.target->actor, call.id)) link->send_cancel(call.id);
}

void System::Impl::arm_deadlines(TimePoint at) {
  loop.post([this, at] {
    if (at >= deadline_armed) return;
    deadline_armed = at;
    deadline_timer->start(at, [this] { expire(); });
  });
}

void System::Impl::expire() {
  deadline_armed = TimePoint::max();
  TimePoint next = TimePoint::max();
  for (const auto& state : pending.take_expired(SteadyClock().now(), next)) {
    const Error error(
        ErrorCode::kDeadlineExceeded,
        fmt::format("the call '{}' of {} on {} had no result by its deadline; it {}", state->method,
                    state->target->label, state->target->process.name, state->outcome()));
    if (state->fail(error)) withdraw(*state);
  }
  if (next != TimePoint::max()) arm_deadlines(next);
}

ProcessRef LocalRoute::peer() const { return system_.introduce().process; }

void LocalRoute::reply(Reply reply, bool) { system_.finish(std::move(reply)); }

void LocalRoute::request_credit(ActorId actor) {
  const auto host = system_.find_host(actor);
  if (!host) return;
  if (const auto credit = host->mailbox()->request_report(this)) on_credit(*credit);
}

std::optional<Error> LocalRoute::transmit(OutgoingCall& outgoing) {
  return system_.deliver({std::move(outgoing.call), shared_from_this(), outgoing.deadline});
}

}  // namespace weft::actors

#include "actors/system/internal/outgoing_calls.h"

#include <fmt/format.h>

#include <chrono>
#include <tuple>
#include <utility>

#include "actors/call/future.h"
#include "actors/system/directory.h"
#include "actors/system/internal/relay_messages.h"
#include "actors/system/internal/system_methods.h"
#include "actors/system/system.h"
#include "core/base/units.h"

namespace weft::actors {

namespace {

/// Time in which a mesh whose owner has died is adopted by the next one, and restarted.
constexpr Nanoseconds kLocatedWithin = std::chrono::seconds(30);

/// End of the error of a stream whose deadline has passed.
constexpr const char* kStreamRemedy =
    ". A deadline counts from the call: for a long stream use within(kNoDeadline).stream, or the "
    "option deadline(...) of the method";

}  // namespace

void OutgoingCalls::check_size(std::size_t bytes, const ActorAddress& target, const char* method) {
  if (bytes > kMaxMessageBytes)
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the arguments of '{}' for {} take {}; the limit is {}: tensors and "
                    "files travel by transfer, not in calls",
                    method, target.label, format_bytes(bytes), format_bytes(kMaxMessageBytes)))
        .with(CallProgress::kNotSent);
}

std::shared_ptr<Route> OutgoingCalls::route_to(const ProcessRef& process) {
  if (process.id == identity_.id()) return local_;
  return dialer_.link_to(process);
}

TimePoint OutgoingCalls::deadline_after(Nanoseconds within, TimePoint now) const {
  if (within == kDefaultDeadline) within = options_.default_deadline;
  if (within <= Nanoseconds::zero()) return now;
  return within >= TimePoint::max() - now ? TimePoint::max() : now + within;
}

std::shared_ptr<CallState> OutgoingCalls::call(const std::shared_ptr<const ActorAddress>& target,
                                               const char* method, Call call, Nanoseconds within,
                                               bool repeatable, std::optional<ValueSink> sink) {
  check_size(call.arguments.size(), *target, method);
  auto state = make(target, method, within, std::move(sink));
  send(state, std::move(call), repeatable);
  return state;
}

std::shared_ptr<CallState> OutgoingCalls::make(const std::shared_ptr<const ActorAddress>& target,
                                               const char* method, Nanoseconds within,
                                               std::optional<ValueSink> sink) {
  const TimePoint now = SteadyClock().now();
  const TimePoint deadline = deadline_after(within, now);
  auto state = std::make_shared<CallState>(*this, target, method, deadline);
  state->calling_actor = current_actor();
  state->began = now;
  state->sink = std::move(sink);
  if (pending_.add(state)) arm_deadlines(deadline);
  return state;
}

void OutgoingCalls::send(const std::shared_ptr<CallState>& state, Call call, bool repeatable) {
  if (state->deadline <= state->began) {
    pending_.take(state->id);
    fail_late(*state);
    return;
  }
  if (state->target->owner.id != ProcessId()) {
    pending_.keep(*state, call, repeatable);
    return send_to_present_address(state);
  }
  call.id = state->id;
  try {
    route_to(state->target->process)->send({std::move(call), state, state->deadline});
  } catch (const Error& error) {
    state->fail(with_call_outcome(error, *state));
  }
}

std::shared_ptr<CallState> OutgoingCalls::call_relay(const ProcessRef& process,
                                                     std::vector<std::byte> request,
                                                     std::shared_ptr<CarriedCalls> carried) {
  auto state = make(system_actor_of(process, process.name), kRelayMethod, kNoDeadline);
  Call call = system_call(SystemMethod::kRelay, std::move(request));
  call.id = state->id;
  try {
    route_to(process)->send(
        {std::move(call), state, TimePoint::max(), false, kRelayMinor, std::move(carried)});
  } catch (const Error& error) {
    state->fail(error, state->progress());
  }
  return state;
}

std::size_t OutgoingCalls::unsent_to(ProcessId process) const {
  const auto link = links_.find(process);
  return link ? link->unsent_bytes() : 0;
}

void OutgoingCalls::tell_system(ProcessId process, SystemMethod method,
                                std::vector<std::byte> arguments) {
  if (const auto link = links_.find(process))
    link->send({system_call(method, std::move(arguments)), nullptr});
}

void OutgoingCalls::send_to_present_address(const std::shared_ptr<CallState>& call) {
  const auto destination = pending_.destination(call->id);
  if (!destination) return;  // the call has ended meanwhile
  try {
    const auto now = relocations_.current(
        *destination, {[this, call](const Outcome<ActorAddress>& address) {
                         if (address.ok()) send_kept(call, address.value(), true);
                         else call->fail(with_call_outcome(address.error(), *call));
                       },
                       call->sequence, call});
    if (now) send_kept(call, *now, false);
  } catch (const Error& error) {
    call->fail(with_call_outcome(error, *call));
  }
}

void OutgoingCalls::send_kept(const std::shared_ptr<CallState>& call, const ActorAddress& address,
                              bool has_waited) {
  std::optional<Call> message = pending_.message_to(call->id, address);
  if (!message || call->done()) return;
  std::optional<Error> lost;
  try {
    route_to(address.process)->send({std::move(*message), call, call->deadline, has_waited});
  } catch (const Error& error) {
    lost = error;
  }
  if (lost) lose_call(call, *lost);
}

bool OutgoingCalls::resend(const std::shared_ptr<CallState>& call, const Error&) {
  if (call->target->owner.id == ProcessId() || !resends_ || call->done()) return false;
  const auto lost = pending_.destination(call->id);
  if (!lost) return false;
  const ActorKey actor = ActorKey::of(*lost);
  const bool is_owner = lost->owner.id == identity_.id();
  if (is_owner && !relocations_.watches(actor) && !relocations_.moved(actor)) return false;
  switch (pending_.wait_to_resend(*call)) {
    case PendingCalls::Resend::kRefused: return false;
    case PendingCalls::Resend::kWaitsAlready: return true;
    case PendingCalls::Resend::kWaits: break;
  }
  const bool begins = relocations_.begin(actor);
  if (begins && !is_owner) locate(*lost);
  // The owner ends the restart itself. Without one, only the connection was lost.
  if (begins && is_owner)
    timers_.run_after(kDeathReportedWithin, [this, lost] { relocations_.withdraw(*lost); });
  send_to_present_address(call);
  return true;
}

void OutgoingCalls::locate(const ActorAddress& lost) {
  const auto asked = call(system_actor_of(lost.owner, lost.label), "locate",
                          system_call(SystemMethod::kLocate, encode(lost)), kNoDeadline);
  asked->when_done([this, lost, asked] {
    const ActorKey actor = ActorKey::of(lost);
    try {
      located(lost, take_result<ActorAddress>(*asked));
    } catch (const Error& error) {
      // An answer of the owner names its node, and is final.
      if (!error.node().empty() && error.code() != ErrorCode::kResourceExhausted)
        return relocations_.finish(actor, error);
      locate_by_directory(lost, error);
    }
  });
}

void OutgoingCalls::located(const ActorAddress& lost, const ActorAddress& now) {
  if (ActorKey::of(now) == ActorKey::of(lost)) relocations_.withdraw(lost);
  else relocations_.finish(ActorKey::of(lost), now);
}

void OutgoingCalls::locate_by_directory(const ActorAddress& lost, const Error& why) {
  const auto give_up = [this, lost, why](const std::string& note) {
    // The owner may be reachable later.
    relocations_.abandon(
        ActorKey::of(lost),
        Error(why.code(),
              fmt::format("{} was lost, and its owner {} does not say where it is now: {}{}",
                          lost.label, lost.owner.name, why.message(), note)));
  };
  const ActorId directory = actor_id_of(kDirectoryName);
  if (!actors_.find(directory)) return give_up("");
  const System::Method method = internal::method_of<Directory, &Directory::locate>();
  Call request;
  request.actor = directory;
  request.method = method.index;
  request.interface_fingerprint = method.fingerprint;
  request.urgent = method.urgent;
  request.arguments = encode(std::tuple(lost));
  const auto asked = call(std::make_shared<const ActorAddress>(
                              ActorAddress{identity_.process(), directory, kDirectoryName}),
                          method.name, std::move(request), kLocatedWithin);
  asked->when_done([this, lost, asked, give_up] {
    try {
      located(lost, take_result<ActorAddress>(*asked));
    } catch (const Error& error) {
      give_up(fmt::format("; nor does the head: {}", error.message()));
    }
  });
}

bool OutgoingCalls::tell(const std::shared_ptr<const ActorAddress>& target, Call call,
                         Nanoseconds within) {
  check_size(call.arguments.size(), *target, "tell");
  if (target->owner.id != ProcessId()) {
    // The reply tells whether the process lives. Without it, the message would be lost unseen.
    const auto state = this->call(target, "tell", std::move(call), within);
    log_failure(options_.log, state);
    return true;
  }
  try {
    return route_to(target->process)
        ->send({std::move(call), nullptr, deadline_after(within, SteadyClock().now())});
  } catch (const Error&) {
    return false;  // dead, or not reachable
  }
}

void OutgoingCalls::log_failure(const Log& log, const std::shared_ptr<CallState>& call) {
  call->when_done([log, state = call.get()] {
    // Cancelled: this process or the actor ends.
    if (state->error() && state->error()->code() != ErrorCode::kCancelled)
      log.error("{}: a one-way call failed: {}", state->target->label, state->error()->describe());
  });
}

bool OutgoingCalls::resend_refused(const Reply& reply) {
  const Error* const error = std::get_if<Error>(&reply.result);
  if (error == nullptr || error->code() != ErrorCode::kStaleEpoch) return false;
  // A handler that throws this error has run.
  const bool refused = reply.state == ReplyState::kRefused;
  if (!refused && reply.state != ReplyState::kInterrupted) return false;
  const auto state = pending_.kept_call(reply.id);
  if (!state) return false;
  const auto refusing = pending_.destination(reply.id);
  if (trees_ != nullptr) trees_->forget(reply.id);
  if (refused) state->sent = false;
  const bool resent = resend(state, *error);
  // The former incarnation gives no credit for the calls that wait to be sent to it.
  if (refused && refusing && refusing->process.id == identity_.id())
    local_->return_held(refusing->actor, *error);
  else if (const auto link = refusing ? links_.find(refusing->process.id) : nullptr;
           link && refused)
    link->return_held(refusing->actor, *error);
  return resent;
}

void OutgoingCalls::note_ended(const Reply& reply) {
  const Error* const error = std::get_if<Error>(&reply.result);
  if (reply.state != ReplyState::kRefused || error == nullptr ||
      error->code() != ErrorCode::kNotFound)
    return;
  const auto destination = pending_.kept_call(reply.id) ? pending_.destination(reply.id) : nullptr;
  // The owner is told by the process of the actor.
  if (destination && destination->owner.id != identity_.id())
    relocations_.lose(ActorKey::of(*destination), *error);
}

void OutgoingCalls::finish(Reply reply) {
  if (resend_refused(reply)) return;
  note_ended(reply);
  const auto state = pending_.take(reply.id);
  if (!state) return;  // timed out or cancelled before
  const auto progress = reply.state == ReplyState::kRefused      ? CallProgress::kNotStarted
                        : reply.state == ReplyState::kResultLost ? CallProgress::kReplyLost
                                                                 : CallProgress::kFailed;
  if (auto* error = std::get_if<Error>(&reply.result)) state->fail(std::move(*error), progress);
  else state->complete(std::get<std::vector<std::byte>>(std::move(reply.result)));
}

void OutgoingCalls::take_values(Values values) {
  const auto call = pending_.find_call(values.id);
  // Without a call: timed out or cancelled before. Without a sink: an error of the sender.
  if (!call || !call->sink) return;
  call->yielded = true;
  if (const auto reader = call->sink->reader.lock())
    reader->on_values(*call, std::move(values.values));
}

void OutgoingCalls::pull(const CallState& call, std::uint64_t values, std::uint64_t bytes) {
  const auto destination = pending_.destination(call.id);
  if (!destination) return;  // the call has ended
  const Pull pull{call.id, destination->actor, values, bytes};
  if (destination->process.id == identity_.id()) {
    if (const auto host = actors_.find(pull.actor)) host->grant_values(local_.get(), pull);
  } else if (const auto link = links_.find(destination->process.id)) {
    link->send_pull(pull);
  }
}

void OutgoingCalls::finish_combined(const std::vector<std::uint64_t>& ids,
                                    std::vector<std::byte> value, std::size_t level) {
  for (const std::uint64_t id : ids) {
    const auto state = pending_.take(id);
    if (!state) continue;
    if (id == ids.front()) state->complete_combined(std::exchange(value, {}), level);
    else state->complete_covered();
  }
}

void OutgoingCalls::withdraw(const CallState& call) {
  const auto destination = pending_.destination(call.id);
  pending_.take(call.id);
  withdraw_from(destination ? *destination : *call.target, call);
}

void OutgoingCalls::withdraw_from(const ActorAddress& target, const CallState& call) {
  if (trees_ != nullptr && trees_->cancel(call.id)) return;
  if (target.process.id == identity_.id()) {
    if (local_->withdraw(target.actor, call.id)) return;
    if (const auto host = actors_.find(target.actor)) host->cancel(local_.get(), call.id);
    return;
  }
  const auto link = links_.find(target.process.id);
  if (link && !link->withdraw(target.actor, call.id)) link->send_cancel(call.id);
}

void OutgoingCalls::fail_all_of(ProcessId process, const Error& reason) {
  // Calls that were not sent come back from their route.
  for (const auto& state : pending_.sent_to(process)) {
    if (trees_ != nullptr) trees_->forget(state->id);
    lose_call(state, reason);
    if (state->done()) pending_.take(state->id);
  }
}

void OutgoingCalls::cancel_all_of(ProcessId process, const Error& reason) {
  for (const auto& [state, destination] : pending_.take_all_of(process)) {
    withdraw_from(*destination, *state);
    state->fail(with_call_outcome(reason, *state));
  }
}

void OutgoingCalls::fail_all_of(const std::set<ActorKey>& actors, const Error& reason) {
  for (const auto& state : pending_.sent_to(actors)) {
    if (trees_ != nullptr) trees_->forget(state->id);
    lose_call(state, reason);
    if (state->done()) pending_.take(state->id);
  }
}

void OutgoingCalls::cancel_all_of(const std::set<ActorKey>& actors, const Error& reason) {
  for (const auto& [state, destination] : pending_.take_all_of(actors)) {
    withdraw_from(*destination, *state);
    state->fail(with_call_outcome(reason, *state));
  }
}

void OutgoingCalls::fail_all(const Error& reason) {
  for (const auto& taken : pending_.take_all())
    taken.call->fail(with_call_outcome(reason, *taken.call));
}

void OutgoingCalls::arm_deadlines(TimePoint at) {
  loop_.post([this, at] {
    if (at >= deadline_armed_ || deadlines_stopped_) return;
    deadline_armed_ = at;
    if (!deadline_timer_) deadline_timer_ = std::make_unique<Timer>(loop_);
    deadline_timer_->start(at, [this] { expire(); });
  });
}

void OutgoingCalls::fail_late(CallState& call) {
  const CallProgress progress = call.progress();
  call.fail(Error(ErrorCode::kDeadlineExceeded,
                  fmt::format("the call '{}' of {} on {} {} by its deadline; it {}{}", call.method,
                              call.target->label, call.target->process.name,
                              call.sink ? "did not end" : "had no result", to_string(progress),
                              call.sink ? kStreamRemedy : "")),
            progress);
}

void OutgoingCalls::expire() {
  deadline_armed_ = TimePoint::max();
  TimePoint next = TimePoint::max();
  for (const auto& [state, destination] : pending_.take_expired(SteadyClock().now(), next)) {
    withdraw_from(*destination, *state);
    fail_late(*state);
  }
  if (next != TimePoint::max()) arm_deadlines(next);
}

void OutgoingCalls::stop_deadlines() {
  deadlines_stopped_ = true;
  deadline_timer_.reset();
}

}  // namespace weft::actors

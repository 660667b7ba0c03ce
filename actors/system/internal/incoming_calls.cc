#include "actors/system/internal/incoming_calls.h"

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

namespace weft::actors {

std::optional<Error> IncomingCalls::answer(const Envelope& envelope) {
  const auto route = envelope.route;
  const Call& call = envelope.call;
  const Answer answer = [route, id = call.id](Outcome<std::vector<std::byte>> result) {
    if (result.ok()) route->reply({id, std::move(result).value()}, false);
    else route->reply({id, result.error()}, false);
  };
  try {
    const ProcessRef caller = route->peer();
    switch (static_cast<SystemMethod>(call.method)) {
      case SystemMethod::kStop:
        stop_actor(decode<ActorId>(call.arguments), caller, answer);
        return std::nullopt;
      case SystemMethod::kStopActors:
        stop_actors(decode<StopRequest>(call.arguments), caller, answer);
        return std::nullopt;
      case SystemMethod::kReport:
        report(decode<ActorId>(call.arguments), answer);
        return std::nullopt;
      case SystemMethod::kToken:
        token_.on_message(decode<TokenMessage>(call.arguments), caller.id);
        if (call.id != 0) answer(std::vector<std::byte>());
        return std::nullopt;
      case SystemMethod::kSurvey:
        if (call.interface_fingerprint != kSurveyFingerprint) throw other_build(identity_.name());
        surveys_.answer(decode<SurveyRequest>(call.arguments), answer);
        return std::nullopt;
      case SystemMethod::kLocate:
        locate(decode<ActorAddress>(call.arguments), answer);
        return std::nullopt;
      case SystemMethod::kExited:
        note_exit(decode<ActorExit>(call.arguments), caller);
        return std::nullopt;
      case SystemMethod::kRelay:
        relay_.on_request(route, call.id, decode<RelayRequest>(call.arguments));
        return std::nullopt;
      case SystemMethod::kRelayChunk:
        relay_.on_chunk(caller.id, decode_chunk(call.arguments));
        return std::nullopt;
      case SystemMethod::kRelayCancel:
        relay_.on_cancel(caller.id, decode<RelayCancel>(call.arguments));
        return std::nullopt;
      case SystemMethod::kRelayResults:
        relay_.on_results(caller.id, decode<RelayResults>(call.arguments));
        return std::nullopt;
      case SystemMethod::kDecide:
        decide(decode<DecisionRequest>(call.arguments), answer);
        return std::nullopt;
      case SystemMethod::kSpawn: break;
    }
    spawn(decode<SpawnRequest>(call.arguments), caller, answer);
    return std::nullopt;
  } catch (const Error& error) {
    return Error(error).from(identity_.name(), "");
  }
}

void IncomingCalls::stop_actor(ActorId actor, const ProcessRef& caller, const Answer& answer) {
  const auto host = actors_.find(actor);
  if (!host) return answer(std::vector<std::byte>());  // ended already
  if (host->owner() != caller.id)
    throw_error(ErrorCode::kFailedPrecondition, "{} is stopped by its owner only, and {} is not it",
                host->self().label, caller.name);
  host->when_ended([answer] { answer(std::vector<std::byte>()); });
  if (loop_.in_loop()) return host->stop();
  // A call of this process comes under the lock of its route, which the cancelled calls of the
  // actor need.
  loop_.post([host] { host->stop(); });
}

void IncomingCalls::stop_actors(const StopRequest& request, const ProcessRef& caller,
                                const Answer& answer) {
  std::vector<std::shared_ptr<ActorHost>> hosts;
  for (const auto& host : actors_.all()) {
    if (host->options().place.mesh != request.mesh) continue;
    if (!request.label.empty() && host->self().label != request.label) continue;
    if (request.epoch != 0 && host->options().restart.epoch > request.epoch) continue;
    const ProcessId owner = host->owner();
    if (owner == caller.id || (owner != identity_.id() && !links_.is_attached(owner)))
      hosts.push_back(host);
  }
  // Answers once all have ended.
  const auto left = std::make_shared<std::atomic<std::size_t>>(hosts.size() + 1);
  const auto one_ended = [left, answer] {
    if (--*left == 0) answer(std::vector<std::byte>());
  };
  for (const auto& host : hosts) host->when_ended(one_ended);
  const auto stop = [hosts, is_restart = request.is_restart] {
    for (const auto& host : hosts) {
      if (is_restart) host->stop_for_restart();
      else host->stop();
    }
  };
  // As in stop_actor().
  if (loop_.in_loop()) stop();
  else loop_.post(stop);
  one_ended();
}

void IncomingCalls::report(ActorId actor, const Answer& answer) {
  const auto host = actors_.find(actor);
  auto report = host ? host->report() : std::nullopt;
  if (!report)
    throw_error(ErrorCode::kNotFound, "{} has no such actor, or it reports nothing",
                identity_.name());
  answer(std::move(*report));
}

void IncomingCalls::locate(const ActorAddress& actor, const Answer& answer) {
  const auto reply = [answer, name = identity_.name()](const Outcome<ActorAddress>& address) {
    if (address.ok()) answer(encode(address.value()));
    else answer(Error(address.error()).from(name, ""));
  };
  const ActorKey key = ActorKey::of(actor);
  const auto now = relocations_.current(actor, {reply});
  if (!now) return;
  if (ActorKey::of(*now) != key) return reply(*now);
  if (!relocations_.watches(key))
    throw_error(ErrorCode::kNotFound, "{} has ended, or {} does not restart it", actor.label,
                identity_.name());
  timers_.run_after(kDeathReportedWithin, [this, actor, reply] {
    try {
      if (const auto later = relocations_.current(actor, {reply})) reply(*later);
    } catch (const Error& error) {
      reply(error);
    }
  });
}

void IncomingCalls::report_exit(const ActorHost& actor, const std::string& reason) {
  send_exit({actor.self(), reason}, actor.owner());
}

void IncomingCalls::send_exit(const ActorExit& exit, ProcessId owner) {
  if (owner == identity_.id()) return note_exit(exit, identity_.process());
  if (const auto link = links_.find(owner))
    link->send({system_call(SystemMethod::kExited, encode(exit)), nullptr});
}

void IncomingCalls::note_exit(const ActorExit& exit, const ProcessRef& caller) {
  if (exit.actor.process.id != caller.id) return;
  relocations_.end(ActorKey::of(exit.actor),
                   ended_error(exit.actor.label, exit.reason).from(caller.name, exit.actor.label));
  std::function<void(const ActorAddress&)> exited;
  {
    const std::lock_guard lock(mutex_);
    exited = exited_;
  }
  if (exited) exited(exit.actor);
}

void IncomingCalls::on_exited(std::function<void(const ActorAddress&)> callback) {
  const std::lock_guard lock(mutex_);
  exited_ = std::move(callback);
}

void IncomingCalls::decide(DecisionRequest request, const Answer& answer) {
  const auto host = actors_.find(request.actor);
  const auto decider = host ? host->decider(request.decider) : nullptr;
  // Destroyed without a decision if the actor ends before it runs the task.
  struct Decision {
    ~Decision() {
      if (!is_made)
        answer(
            Error(ErrorCode::kUnavailable, "the actor ends").from(actor.process.name, actor.label));
    }
    Answer answer;
    ActorAddress actor;
    bool is_made = false;
  };
  if (!decider)
    throw_error(ErrorCode::kNotFound, "{} has no actor that decides about these children",
                identity_.name());
  const auto decision = std::make_shared<Decision>();
  decision->answer = answer;
  decision->actor = host->self();
  (void)host->mailbox()->post([decider, decision, incident = std::move(request.incident)] {
    decision->is_made = true;
    try {
      decision->answer(decider(incident));
    } catch (...) {
      decision->answer(
          Error(current_error()).from(decision->actor.process.name, decision->actor.label));
    }
  });
}

void IncomingCalls::spawn(SpawnRequest request, const ProcessRef& caller, const Answer& answer) {
  const Provider& provider =
      actors_.find_provider({request.interface, request.version, request.fingerprint}, caller.name);
  if (request.adopt_existing) return answer(encode(adopt(request, caller)));
  actors_.spawn(provider, actors_.new_id(), std::move(request.label), std::move(request.place),
                caller, std::move(request.arguments), answer, std::move(request.restart),
                request.thread);
}

ActorAddress IncomingCalls::adopt(const SpawnRequest& request, const ProcessRef& owner) {
  const auto host = actors_.find(request.label, request.interface);
  if (!host || host->ended()) {
    auto exit = actors_.adopt_ended(request.label, request.interface, owner.id);
    // An actor that ends right now is not among the ended ones yet.
    if (const auto reason = host ? host->exit_reason() : std::nullopt; reason && !exit) {
      host->change_owner(owner);
      exit = ActorExit{host->self(), *reason};
    }
    if (!exit)
      throw_error(ErrorCode::kNotFound, "{} has no actor '{}' to take over", identity_.name(),
                  request.label);
    send_exit(*exit, owner.id);
    return exit->actor;
  }
  const ProcessId before = host->change_owner(owner);
  // Disconnects the previous owner, before the next call of the new one.
  loop_.post([this, host, before, owner = owner.id] {
    if (before == owner) return;
    if (const auto link = links_.find(before))
      links_.drop(link, Error(ErrorCode::kStaleEpoch,
                              "another process took over the actors that this process owned"));
    host->cancel_calls_of(before);
  });
  return host->self();
}

}  // namespace weft::actors

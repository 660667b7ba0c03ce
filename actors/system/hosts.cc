// Actors of the System: hosting, spawning for other processes, delivery, removal.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "actors/system/internal/runtime.h"

namespace weft::actors {
namespace {

/// Time limit of adopting an actor. A live process answers at once.
constexpr auto kTakeOverWithin = std::chrono::seconds(5);
/// Placeholder for an actor that could not be adopted.
constexpr ActorId kNoActor{std::numeric_limits<std::uint64_t>::max()};

}  // namespace

std::shared_ptr<ActorHost> System::Impl::find_host(ActorId id) {
  const std::lock_guard lock(hosts_mutex);
  const auto found = hosts.find(id);
  return found == hosts.end() ? nullptr : found->second;
}

bool System::Impl::is_closing() {
  const std::lock_guard lock(hosts_mutex);
  return closing;
}

std::optional<Error> System::Impl::deliver(Envelope envelope) {
  if (envelope.call.actor == ActorId(0)) return answer_system_call(std::move(envelope));
  const auto host = find_host(envelope.call.actor);
  const auto refusal = host ? host->mailbox()->push(envelope) : Mailbox::Refusal::kClosed;
  switch (refusal) {
    case Mailbox::Refusal::kNone: return std::nullopt;
    case Mailbox::Refusal::kClosed:
      if (is_closing())
        return Error(
            ErrorCode::kUnavailable,
            fmt::format("{} is shutting down; the call was not started", self.process.name));
      return Error(ErrorCode::kNotFound,
                   fmt::format("{}: {} does not exist (stopped, or never started); the call was "
                               "not started",
                               self.process.name,
                               host ? "actor '" + host->self().label + "'" : "the actor"))
          .from(self.process.name, host ? host->self().label : "");
    case Mailbox::Refusal::kOverrun:
      return Error(ErrorCode::kResourceExhausted,
                   fmt::format("the mailbox of {} is full; the call was not started",
                               host->self().label))
          .from(self.process.name, host->self().label);
    case Mailbox::Refusal::kUrgentFull:
      return Error(ErrorCode::kResourceExhausted,
                   fmt::format("{} urgent calls wait for {} already; the call was not started",
                               Mailbox::kMaxUrgent, host->self().label))
          .from(self.process.name, host->self().label);
  }
  return std::nullopt;
}

std::optional<Error> System::Impl::answer_system_call(Envelope envelope) {
  const auto route = envelope.route;
  const std::uint64_t id = envelope.call.id;
  const auto answer = [route, id](Outcome<std::vector<std::byte>> result) {
    if (result.ok()) route->reply({id, std::move(result).value()}, false);
    else route->reply({id, result.error()}, false);
  };
  try {
    if (envelope.call.method == static_cast<std::uint32_t>(SystemMethod::kStop)) {
      const auto host = find_host(decode<ActorId>(envelope.call.arguments));
      if (!host) {  // ended already
        answer(std::vector<std::byte>());
        return std::nullopt;
      }
      if (host->owner() != route->peer().id)
        throw_error(ErrorCode::kFailedPrecondition,
                    "{} is stopped by its owner only, and {} is not it", host->self().label,
                    route->peer().name);
      host->when_ended([answer] { answer(std::vector<std::byte>()); });
      host->stop();
      return std::nullopt;
    }
    if (envelope.call.method == static_cast<std::uint32_t>(SystemMethod::kReport)) {
      const auto host = find_host(decode<ActorId>(envelope.call.arguments));
      auto report = host ? host->report() : std::nullopt;
      if (!report)
        throw_error(ErrorCode::kNotFound, "{} has no such actor, or it reports nothing",
                    self.process.name);
      answer(std::move(*report));
      return std::nullopt;
    }
    if (envelope.call.method == static_cast<std::uint32_t>(SystemMethod::kToken)) {
      const auto message = decode<TokenMessage>(envelope.call.arguments);
      on_token(message, route->peer().id);
      if (id != 0) answer(std::vector<std::byte>());
      return std::nullopt;
    }
    if (envelope.call.method == static_cast<std::uint32_t>(SystemMethod::kSurvey)) {
      answer_survey(decode<SurveyRequest>(envelope.call.arguments), answer);
      return std::nullopt;
    }
    const auto request = decode<SpawnRequest>(envelope.call.arguments);
    const auto provider = std::find_if(
        providers.begin(), providers.end(),
        [&](const Provider& each) { return each.interface.name == request.interface; });
    if (provider == providers.end())
      throw_error(ErrorCode::kNotFound,
                  "{} does not provide actors with interface '{}'; its main must call "
                  "system.provide<...>()",
                  self.process.name, request.interface);
    if (provider->interface.version != request.version ||
        provider->interface.fingerprint != request.fingerprint)
      throw_error(ErrorCode::kIncompatible,
                  "interface '{}' has version {} (fingerprint {:016x}) in {} and version {} "
                  "(fingerprint {:016x}) in {}; build "
                  "both from the same source",
                  request.interface, provider->interface.version, provider->interface.fingerprint,
                  self.process.name, request.version, request.fingerprint, route->peer().name);
    if (request.adopt_existing) {
      answer(encode(transfer_actor(request, route->peer().id)));
      return std::nullopt;
    }
    ActorId actor;
    {
      const std::lock_guard lock(hosts_mutex);
      actor = ActorId(next_actor++);
    }
    spawn(*provider, actor, request.label, request.place, route->peer().id, request.arguments,
          answer);
    return std::nullopt;
  } catch (const Error& error) {
    return Error(error).from(self.process.name, "");
  }
}

ActorAddress System::Impl::transfer_actor(const SpawnRequest& request, ProcessId to) {
  std::shared_ptr<ActorHost> host;
  {
    const std::lock_guard lock(hosts_mutex);
    for (const auto& [id, each] : hosts)
      if (each->self().label == request.label &&
          each->options().provider.interface.name == request.interface)
        host = each;
  }
  if (!host || host->ended())
    throw_error(ErrorCode::kNotFound, "{} has no actor '{}' to take over", self.process.name,
                request.label);
  const ProcessId before = host->change_owner(to);
  // Disconnects the previous owner, before the next call of the new one.
  loop.post([this, host, before, to] {
    if (before == to) return;
    std::shared_ptr<Link> link;
    {
      const std::lock_guard lock(routes_mutex);
      if (const auto found = links.find(before); found != links.end()) link = found->second;
    }
    if (link)
      drop_link(link, Error(ErrorCode::kStaleEpoch,
                            "another process took over the actors that this process owned"));
    host->cancel_calls_of(before);
  });
  return host->self();
}

ActorAddress System::Impl::spawn(Provider provider, ActorId id, std::string label,
                                 MeshPosition place, ProcessId owner_process,
                                 std::vector<std::byte> arguments,
                                 std::function<void(Outcome<std::vector<std::byte>>)> constructed) {
  ActorAddress address{owner.self(), id, std::move(label)};
  std::shared_ptr<ActorHost> host;
  {
    const std::lock_guard lock(hosts_mutex);
    if (closing)
      throw_error(ErrorCode::kUnavailable, "{} is shutting down and hosts no more actors",
                  self.process.name);
    if (hosts.contains(id))
      throw_error(ErrorCode::kAlreadyExists, "{} hosts an actor named '{}' already",
                  self.process.name, address.label);
    ActorHost::Options host_options{address,
                                    std::move(place),
                                    std::move(provider),
                                    owner_process,
                                    options.mailbox,
                                    [this](Nanoseconds delay, std::function<void()> callback) {
                                      schedule(delay, std::move(callback));
                                    },
                                    options.log};
    host = std::make_shared<ActorHost>(owner, std::move(host_options));
    hosts.emplace(id, host);
  }
  host->start(std::move(arguments), std::move(constructed), [this, id] {
    // Called on the actor's thread, which is about to end: the loop joins it.
    loop.post([this, id] { remove_actor(id); });
  });
  return address;
}

void System::Impl::remove_actor(ActorId id) {
  std::shared_ptr<ActorHost> host;
  {
    const std::lock_guard lock(hosts_mutex);
    const auto found = hosts.find(id);
    if (found == hosts.end()) return;
    host = std::move(found->second);
    hosts.erase(found);
  }
  host->join();
}

ActorAddress System::host_actor(Provider provider, const std::string& name,
                                std::vector<std::byte> arguments) {
  const auto state = std::make_shared<CallState>(
      *impl_, std::make_shared<const ActorAddress>(ActorAddress{self(), actor_id_of(name), name}),
      "construct", TimePoint::max());
  auto address =
      impl_->spawn(std::move(provider), actor_id_of(name), name, MeshPosition{name, MeshShape(), 0},
                   impl_->self.process.id, std::move(arguments),
                   [state](Outcome<std::vector<std::byte>> result) {
                     if (result.ok()) state->complete(std::move(result).value());
                     else state->fail(result.error());
                   });
  state->wait_until(TimePoint::max());
  if (state->error()) throw *state->error();
  return address;
}

std::shared_ptr<CallState> System::request_actor(const InterfaceVersion& interface,
                                                 const MeshPosition& place,
                                                 const ProcessRef& process,
                                                 std::vector<std::byte> arguments,
                                                 bool adopt_existing, Nanoseconds within) {
  SpawnRequest request{interface.name,
                       interface.version,
                       interface.fingerprint,
                       place.mesh + to_string(place.shape, place.shape.coordinates(place.rank)),
                       place,
                       std::move(arguments),
                       adopt_existing};
  Call call;
  call.method = static_cast<std::uint32_t>(SystemMethod::kSpawn);
  call.urgent = true;  // the system has no mailbox, and so no credit
  call.arguments = encode(request);
  const auto target = std::make_shared<const ActorAddress>(
      ActorAddress{process, ActorId(0), std::move(request.label)});
  return impl_->call(target, adopt_existing ? "take over" : "construct", std::move(call), within);
}

std::vector<std::shared_ptr<const ActorAddress>> System::adopt_actors(
    const InterfaceVersion& interface, const std::string& name, const MeshShape& shape,
    const std::vector<ProcessRef>& processes) {
  std::vector<std::shared_ptr<CallState>> calls;
  for (std::size_t rank = 0; rank < processes.size(); ++rank)
    calls.push_back(request_actor(interface, {name, shape, static_cast<std::int64_t>(rank)},
                                  processes[rank], {}, true, kTakeOverWithin));
  std::vector<std::shared_ptr<const ActorAddress>> actors;
  for (const auto& call : calls) {
    call->wait_until(TimePoint::max());
    actors.push_back(std::make_shared<const ActorAddress>(
        call->error() ? ActorAddress{call->target->process, kNoActor, call->target->label}
                      : decode<ActorAddress>(call->reply())));
  }
  return actors;
}

std::vector<std::shared_ptr<const ActorAddress>> System::spawn_actors(
    const InterfaceVersion& interface, const std::string& name, const MeshShape& shape,
    const std::vector<ProcessRef>& processes, const std::vector<std::byte>& arguments,
    std::vector<std::shared_ptr<const ActorAddress>> kept) {
  kept.resize(processes.size());
  if (std::ssize(processes) != shape.size())
    throw_error(ErrorCode::kInvalidArgument,
                "mesh {}{} needs {} processes, one per rank, and {} are given", name,
                to_string(shape), shape.size(), processes.size());
  std::vector<std::shared_ptr<CallState>> calls(processes.size());
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    if (kept[rank] && kept[rank]->process.id == processes[rank].id) continue;
    calls[rank] = request_actor(interface, {name, shape, static_cast<std::int64_t>(rank)},
                                processes[rank], arguments, false, kDefaultDeadline);
  }
  std::vector<std::shared_ptr<const ActorAddress>> actors = std::move(kept), spawned;
  std::optional<Error> first;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    const auto& call = calls[rank];
    if (!call) continue;
    call->wait_until(TimePoint::max());
    if (call->error()) {
      if (!first)
        first = Error(call->error()->code(), fmt::format("cannot spawn {}: {}", call->target->label,
                                                         call->error()->message()))
                    .from(call->error()->node(), call->error()->actor());
    } else {
      actors[rank] = std::make_shared<const ActorAddress>(decode<ActorAddress>(call->reply()));
      spawned.push_back(actors[rank]);
    }
  }
  if (!first) return actors;
  std::vector<std::shared_ptr<CallState>> stops;
  stops.reserve(spawned.size());
  for (const auto& actor : spawned) stops.push_back(stop_actor(actor, std::chrono::seconds(5)));
  for (const auto& stop : stops) stop->wait_until(TimePoint::max());
  throw *first;
}

}  // namespace weft::actors

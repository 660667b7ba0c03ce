// Spawning, adoption and hosting of actors by a System.

#include <fmt/format.h>

#include "actors/call/future.h"
#include "actors/system/internal/runtime.h"

namespace weft::actors {
namespace {

/// Time limit of adopting an actor. A live process answers at once.
constexpr auto kTakeOverWithin = std::chrono::seconds(5);
/// Time limit of the end of an actor whose handlers are cancelled.
constexpr auto kStopForRestartWithin = ActorHost::kStopGrace + std::chrono::seconds(5);

MeshPosition place_of(const SpawnedActors& actors, std::size_t rank) {
  return {actors.name, actors.shape, static_cast<std::int64_t>(rank)};
}

std::string label_of(const SpawnedActors& actors, std::size_t rank) {
  return actors.name + to_string(actors.shape, place_of(actors, rank).coordinates());
}

}  // namespace

ActorAddress System::host_actor(Provider provider, const std::string& name,
                                std::vector<std::byte> arguments, ActorThread thread) {
  const auto state = std::make_shared<CallState>(
      impl_->calls,
      std::make_shared<const ActorAddress>(ActorAddress{self(), actor_id_of(name), name}),
      "construct", TimePoint::max());
  auto address = impl_->actors.spawn(
      std::move(provider), actor_id_of(name), name, MeshPosition{name, MeshShape(), 0},
      impl_->identity.process(), std::move(arguments),
      [state](Outcome<std::vector<std::byte>> result) {
        if (result.ok()) state->complete(std::move(result).value());
        else state->fail(result.error());
      },
      {}, thread);
  state->wait_until(TimePoint::max());
  if (state->error()) throw *state->error();
  return address;
}

std::shared_ptr<CallState> System::request_actor(const SpawnedActors& actors, std::size_t rank,
                                                 const ProcessRef& process, bool adopt_existing,
                                                 Nanoseconds within, const RestartInfo& info) {
  const SpawnRequest request{actors.interface.name,
                             actors.interface.version,
                             actors.interface.fingerprint,
                             label_of(actors, rank),
                             place_of(actors, rank),
                             adopt_existing ? std::vector<std::byte>() : actors.arguments,
                             adopt_existing,
                             info,
                             actors.thread};
  return impl_->calls.call(system_actor_of(process, request.label),
                           adopt_existing ? "take over" : "construct",
                           system_call(SystemMethod::kSpawn, encode(request)), within);
}

SpawnedActors System::adopt_actors(SpawnedActors actors, const std::vector<ProcessRef>& processes) {
  std::vector<std::shared_ptr<CallState>> calls;
  for (std::size_t rank = 0; rank < processes.size(); ++rank)
    calls.push_back(request_actor(actors, rank, processes[rank], true, kTakeOverWithin));
  actors.addresses.clear();
  for (const auto& call : calls) {
    wait_in_thread(call, TimePoint::max());
    actors.addresses.push_back(std::make_shared<const ActorAddress>(
        call->error() ? ActorAddress{call->target->process, lost_actor_id(call->target->label),
                                     call->target->label}
                      : decode<ActorAddress>(call->reply())));
  }
  return actors;
}

void System::stop_for_restart(const SpawnedActors& actors, const std::vector<ProcessRef>& processes,
                              const std::set<std::uint32_t>& again) {
  std::vector<std::shared_ptr<CallState>> stops;
  for (const std::uint32_t rank : again) {
    // Also an actor of which this process does not know: its adoption or its construction was late.
    const StopRequest request{actors.name, label_of(actors, rank), true};
    stops.push_back(impl_->calls.call(system_actor_of(processes[rank], request.label), "stop",
                                      system_call(SystemMethod::kStopActors, encode(request)),
                                      kStopForRestartWithin));
  }
  std::optional<Error> first;
  for (const auto& stop : stops) {
    wait_in_thread(stop, TimePoint::max());
    // If the process has died, the spawn fails, too.
    if (stop->error() && stop->error()->code() != ErrorCode::kPeerDied && !first)
      first =
          Error(stop->error()->code(), fmt::format("{} cannot be restarted, as it does not end: {}",
                                                   stop->target->label, stop->error()->message()));
  }
  if (first) throw *first;
}

SpawnedActors System::spawn_actors(SpawnedActors actors, const std::vector<ProcessRef>& processes,
                                   const RestartInfo& info, const std::set<std::uint32_t>& again) {
  const MeshShape& shape = actors.shape;
  if (std::ssize(processes) != shape.size())
    throw_error(ErrorCode::kInvalidArgument,
                "mesh {}{} needs {} processes, one per rank, and {} are given", actors.name,
                to_string(shape), shape.size(), processes.size());
  actors.addresses.resize(processes.size());
  stop_for_restart(actors, processes, again);
  std::vector<std::shared_ptr<CallState>> calls(processes.size());
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    const auto& kept = actors.addresses[rank];
    if (kept && kept->process.id == processes[rank].id &&
        !again.contains(static_cast<std::uint32_t>(rank)))
      continue;
    calls[rank] = request_actor(actors, rank, processes[rank], false, kDefaultDeadline, info);
  }
  std::vector<std::shared_ptr<const ActorAddress>> spawned;
  std::optional<Error> first;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    const auto& call = calls[rank];
    if (!call) continue;
    wait_in_thread(call, TimePoint::max());
    if (call->error()) {
      if (!first)
        first = Error(call->error()->code(), fmt::format("cannot spawn {}: {}", call->target->label,
                                                         call->error()->message()))
                    .from(call->error()->node(), call->error()->actor());
    } else {
      auto address = decode<ActorAddress>(call->reply());
      // The actors of a rank have one owner.
      if (actors.addresses[rank]) address.owner = actors.addresses[rank]->owner;
      actors.addresses[rank] = std::make_shared<const ActorAddress>(std::move(address));
      spawned.push_back(actors.addresses[rank]);
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

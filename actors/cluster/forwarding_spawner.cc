#include "actors/cluster/forwarding_spawner.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/base/clock.h"

namespace weft::actors {
namespace {

/// Pause before the owner is asked again.
constexpr Nanoseconds kForwardAgainAfter = std::chrono::milliseconds(100);

/// Returns whether the owner has not answered: it is away, or another one has adopted the actor.
bool is_unanswered(const Error& error) {
  // An answer names its node.
  return error.node().empty() &&
         (error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kPeerDied ||
          error.code() == ErrorCode::kStaleEpoch);
}

}  // namespace

template <auto Method, typename Request>
task<ResultOf<Method>> ForwardingSpawner::forward(ActorId parent, Request request) {
  const SteadyClock clock;
  const TimePoint deadline = context_.deadline();
  while (true) {
    const Nanoseconds left =
        deadline == TimePoint::max() ? kNoDeadline : Nanoseconds(deadline - clock.now());
    std::optional<Error> problem;
    try {
      // The owner changes when a restarted one adopts the actor.
      const ProcessRef owner = context_.system().owner_of(parent);
      if (owner.id == context_.system().self().id)
        throw_error(ErrorCode::kFailedPrecondition,
                    "{} hosts this actor itself and has no Cluster, which alone spawns actors; "
                    "spawn them from an actor that a Cluster has spawned",
                    owner.name);
      auto answer = context_.system()
                        .named<Spawner>(owner, kSpawnerName)
                        .within(left)
                        .template call<Method>(request);
      co_return co_await answer;
    } catch (const Error& error) {
      problem = error;
    }
    const bool is_over =
        context_.stop_token().stop_requested() ||
        (deadline != TimePoint::max() && clock.now() + kForwardAgainAfter >= deadline);
    if (is_over || !is_unanswered(*problem)) throw Error(*problem);
    if constexpr (std::is_same_v<Request, ChildSpawn>) request.is_repeated = true;
    co_await context_.sleep(kForwardAgainAfter);
  }
}

task<SpawnedChild> ForwardingSpawner::spawn(ChildSpawn request) {
  forget_ended();
  request.number = ++last_number_;
  children_[request.parent.actor].push_back({request, false});
  std::optional<Error> problem;
  SpawnedChild spawned;
  try {
    auto spawning = forward<&Spawner::spawn>(request.parent.actor, request);
    spawned = co_await spawning;
    if (context_.stop_token().stop_requested())
      problem = Error(ErrorCode::kCancelled,
                      "the call that spawned '" + request.actors.name() + "' was cancelled");
  } catch (const Error& error) {
    problem = error;
  }
  if (problem) {
    erase(request.parent.actor, request.number);
    if (problem->node().empty()) withdraw(request);
    throw Error(*problem);
  }
  if (spawned.is_child) note(request);
  else erase(request.parent.actor, request.number);
  co_return spawned;
}

void ForwardingSpawner::note(const ChildSpawn& request) {
  // Others of that name have ended.
  erase_named(request.actors.name());
  for (auto& [parent, list] : children_)
    for (Child& child : list)
      if (child.request.number == request.number) child.runs = true;
}

void ForwardingSpawner::erase(ActorId parent, std::uint64_t number) {
  const auto found = children_.find(parent);
  if (found == children_.end()) return;
  std::erase_if(found->second, [&](const Child& child) {
    if (child.request.number != number) return false;
    context_.system().forget_decider(parent, child.request.decider);
    return true;
  });
}

void ForwardingSpawner::child_ended(ChildEnd end) { erase(end.parent, end.number); }

void ForwardingSpawner::withdraw(const ChildSpawn& request) {
  try {
    const ProcessRef owner = context_.system().owner_of(request.parent.actor);
    if (owner.id == context_.system().self().id) return;
    (void)context_.system()
        .named<Spawner>(owner, kSpawnerName)
        .within(kDefaultDeadline)
        .tell<&Spawner::stop>(ChildStop{request.parent, request.actors.name(), request.number});
  } catch (const Error&) {
    // The parent has ended, and its children with it; or the owner is away.
  }
}

task<void> ForwardingSpawner::stop(ChildStop request) {
  auto stopping = forward<&Spawner::stop>(request.parent.actor, request);
  co_await stopping;
  erase_named(request.name);
}

void ForwardingSpawner::erase_named(const std::string& name) {
  std::vector<std::pair<ActorId, std::uint64_t>> ended;
  for (const auto& [parent, list] : children_)
    for (const Child& child : list)
      if (child.runs && child.request.actors.name() == name)
        ended.emplace_back(parent, child.request.number);
  for (const auto& [parent, number] : ended) erase(parent, number);
}

std::vector<ChildSpawn> ForwardingSpawner::children() {
  forget_ended(true);
  std::vector<ChildSpawn> running;
  for (const auto& [actor, list] : children_)
    for (const Child& child : list)
      if (child.runs) running.push_back(child.request);
  return running;
}

void ForwardingSpawner::forget_ended(bool now) {
  if (children_.size() < forget_above_ && !now) return;
  std::erase_if(children_, [&](const auto& entry) {
    try {
      (void)context_.system().owner_of(entry.first);
      return false;
    } catch (const Error&) {
      return true;
    }
  });
  forget_above_ = std::max<std::size_t>(64, 2 * children_.size());
}

ActorRef<Spawner> host_forwarding_spawner(System& system) {
  return system.host_with<Spawner>(
      kSpawnerName,
      [](Context& context) -> std::unique_ptr<Spawner> {
        return std::make_unique<ForwardingSpawner>(context);
      },
      ActorThread::kShared);
}

}  // namespace weft::actors

// Actors that an owner's actors spawn: their spawns, ends, and adoption by a restarted owner.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/cluster/child_spawner.h"
#include "actors/cluster/cluster.h"
#include "actors/cluster/described_spawn.h"

namespace weft::actors {
namespace {

/// Time in which a parent decides about a death. Then the death escalates.
constexpr Nanoseconds kParentDecidesWithin = std::chrono::seconds(10);
/// Longest wait for a child that is being spawned while its parent ends.
constexpr Nanoseconds kSpawnEndsWithin = std::chrono::seconds(10);
/// Time in which a process lists the children of an adopted actor.
constexpr Nanoseconds kChildrenListedWithin = std::chrono::seconds(5);
/// Pause before the spawner is told again of actors that have ended.
constexpr Nanoseconds kTellAgainAfter = std::chrono::milliseconds(100);

/// Asks the parent about a death in its child. Throws the errors of the call.
OnFailure ask_parent(System& system, const ChildSpawn& request, const Incident& incident) {
  std::shared_ptr<CallState> call;
  if (request.policy == ChildPolicy::kDecider) {
    call =
        system.ask_decider(request.parent, request.decider, encode(incident), kParentDecidesWithin);
  } else {
    const System::Method method{
        "on_failure", request.decision_method, request.decision_fingerprint, true,
        false,        kParentDecidesWithin};
    call = system.call(std::make_shared<const ActorAddress>(request.parent), method,
                       kParentDecidesWithin, encode(std::tuple(incident)));
  }
  wait_in_thread(call, TimePoint::max());
  return take_result<OnFailure>(*call);
}

}  // namespace

ActorRef<Spawner> Cluster::host_child_spawner() {
  return system_.host_with<Spawner>(
      kSpawnerName, [this](Context& context) -> std::unique_ptr<Spawner> {
        return std::make_unique<ChildSpawner>(
            context,
            ChildSpawner::Actions{
                [this](const ChildSpawn& request, const std::stop_token& cancelled) {
                  return spawn_child(request, cancelled);
                },
                [this](const ChildStop& request) { stop_child(request); },
                [this] { end_children_of_ended(); }},
            child_work_);
      });
}

SpawnOptions Cluster::child_options(const ChildSpawn& request) {
  SpawnOptions options = options_of(request.actors);
  if (const auto above = supervisor_.placement_of(request.parent_mesh)) {
    if (!options.place.executable) options.place.executable = above->executable;
    options.place.environment.insert(options.place.environment.begin(), above->environment.begin(),
                                     above->environment.end());
  }
  const bool keeps = options.lifetime == Lifetime::kCluster;
  // A function of this run cannot decide for actors that outlive it, which the spawn then says.
  if (request.policy == ChildPolicy::kDecider ||
      (request.policy == ChildPolicy::kOnFailure && !keeps))
    options.decide = [this, request](const Incident& incident) {
      try {
        return ask_parent(system_, request, incident);
      } catch (const Error& error) {
        system_.options().log.warning("{} does not decide about {}: {}", request.parent.label,
                                      request.actors.name(), error.message());
        return OnFailure::kEscalate;
      }
    };
  // The failure scope of the run is that of its driver's meshes.
  if (!keeps && !options.supervised()) options.on_failure = OnFailure::kEscalate;
  return options;
}

SpawnedChild Cluster::spawn_child(const ChildSpawn& request, const std::stop_token& cancelled) {
  const ChildActors::Begun begun = children_.begin(request);
  if (begun.actors) return {*begun.actors, true};
  const std::string& name = request.actors.name();
  try {
    const SpawnOptions options = child_options(request);
    const SpawnedActors wanted = wanted_actors(request.actors);
    if (options.lifetime != Lifetime::kCluster && is_inherited_by_other(request)) {
      const auto existing = options.if_exists == IfExists::kUse
                                ? find_existing(name, wanted, Nanoseconds::zero())
                                : std::nullopt;
      if (!existing)
        throw_error(ErrorCode::kAlreadyExists,
                    "{} has actors named '{}' already, which another actor has spawned",
                    options_.name, name);
      children_.erase(begun.id);
      return {existing->actors, false};
    }
    MeshKey ignored;
    const SpawnResult spawned = spawn_or_find(ignored, wanted, options, begun.id);
    if (spawned.other) {
      children_.erase(begun.id);
      return {spawned.other->actors, false};
    }
    NamedActors actors = named_actors(system_, spawned.own);
    if (!cancelled.stop_requested() && finish_child(begun.id, actors))
      return {std::move(actors), true};
    stop_child_actors(name);
  } catch (...) {
    children_.erase(begun.id);
    throw;
  }
  children_.erase(begun.id);
  throw_error(ErrorCode::kCancelled,
              "{} ended, or its call was cancelled, while it spawned '{}', which was stopped",
              request.parent.label, name);
}

bool Cluster::is_inherited_by_other(const ChildSpawn& request) {
  const std::string& name = request.actors.name();
  if (!meshes_.has_inherited(name)) return false;
  std::map<ProcessId, ProcessRef> processes;
  for (const MeshProcesses& mesh : meshes_.meshes())
    for (const DeviceProcess& member : mesh.processes)
      processes.emplace(member.process.id, member.process);
  processes.erase(ProcessId());
  const ListedChildren listed = children_in(processes);
  if (std::ranges::any_of(listed.children,
                          [&](const ChildSpawn& child) { return child.actors.name() == name; }))
    return true;
  // The parent has died, or the predecessor has begun and not finished this spawn.
  const bool uses = static_cast<IfExists>(request.actors.if_exists) == IfExists::kUse;
  if (!uses || request.is_repeated) release_inherited(name);
  return false;
}

Cluster::ListedChildren Cluster::children_in(const std::map<ProcessId, ProcessRef>& processes) {
  std::vector<Future<std::vector<ChildSpawn>>> lists;
  for (const auto& [id, process] : processes)
    lists.push_back(system_.named<Spawner>(process, kSpawnerName)
                        .within(kChildrenListedWithin)
                        .call<&Spawner::children>());
  ListedChildren listed;
  for (auto& list : lists) {
    try {
      std::ranges::move(list.get(), std::back_inserter(listed.children));
    } catch (const Error& error) {
      // The children of a process that has died have lost their parent.
      listed.is_complete = false;
      system_.options().log.warning("the children of some actors are not known: {}",
                                    error.message());
    }
  }
  return listed;
}

bool Cluster::finish_child(ChildActors::Id child, const NamedActors& actors) {
  if (!children_.finish(child, actors)) return false;
  // The children may have been stopped already, or may have ended before they had a name.
  if (!published_.find(actors.name)) forget_children(actors.name);
  else if (have_ended(actors)) stop_child_actors(actors.name);
  return true;
}

bool Cluster::have_ended(const NamedActors& actors) const {
  return std::ranges::all_of(actors.addresses,
                             [&](const ActorAddress& actor) { return system_.has_ended(actor); });
}

void Cluster::forget_children(const std::string& name) {
  for (const auto& [process, end] : children_.forget(name)) {
    try {
      if (process.id == system_.self().id) system_.forget_decider(end.parent, end.decider);
      else
        (void)system_.named<Spawner>(process, kSpawnerName)
            .within(kChildrenListedWithin)
            .tell<&Spawner::child_ended>(end);
    } catch (const Error&) {
      // The process has died.
    }
  }
}

void Cluster::stop_child(const ChildStop& request) {
  if (request.number != 0) {
    if (children_.withdraw(request)) stop_child_actors(request.name);
    return;
  }
  if (!children_.is_child_of(request.parent, request.name))
    throw_error(ErrorCode::kNotFound,
                "{} has no children named '{}'; an actor can stop those that it has spawned",
                request.parent.label, request.name);
  const auto published = published_.find(request.name);
  const std::size_t num_actors = published ? published->actors.addresses.size() : 0;
  if (request.num_actors != 0 && num_actors != 0 && request.num_actors != num_actors)
    throw_error(ErrorCode::kInvalidArgument,
                "cannot stop a slice of {} actors of '{}', which has {}: actors of a mesh stop "
                "together; stop the whole mesh, or let actors end themselves with context.exit()",
                request.num_actors, request.name, num_actors);
  stop_actors(request.name);
}

void Cluster::stop_child_actors(const std::string& name) {
  try {
    stop_actors(name);
  } catch (const Error& error) {
    // Another thread has stopped them, or is about to.
    if (error.code() != ErrorCode::kNotFound)
      system_.options().log.warning("{}: {}", name, error.message());
  }
}

void Cluster::stop_ending(const std::vector<std::string>& names) {
  // Another thread may have stopped them meanwhile, and another actor used the name again.
  for (const std::string& name : names)
    if (children_.has_to_stop(name)) stop_child_actors(name);
}

void Cluster::end_children(const std::vector<ActorAddress>& ending) {
  std::vector<ActorAddress> parents = ending;
  std::erase_if(parents, [](const ActorAddress& parent) { return is_lost_actor(parent.actor); });
  stop_ending(children_.end(parents));
  children_.wait_until_gone(parents, kSpawnEndsWithin);
}

void Cluster::end_children_of(const MeshKey& mesh) {
  const auto published = published_.find(mesh.name);
  if (published && published->key == mesh) end_children(published->actors.addresses);
}

void Cluster::end_children_of_ended() {
  std::vector<ActorAddress> ended;
  std::vector<std::string> orphans;
  {
    const std::lock_guard lock(ended_mutex_);
    ended = std::exchange(ended_, {});
    orphans = std::exchange(orphans_, {});
  }
  for (const std::string& name : orphans) release_inherited(name);
  std::vector<ActorAddress> own, others;
  std::set<std::string> names;
  for (const ActorAddress& parent : ended) {
    if (parent.actor == kNoActor) {
      stop_ending(children_.end_process(parent.process.id));
      continue;
    }
    // An actor of this process may be hosted again by now.
    (parent.process.id == system_.self().id ? own : others).push_back(parent);
    names.insert(mesh_of(parent));
  }
  end_children(others);
  stop_ending(children_.ending(own));
  children_.wait_until_gone(own, kSpawnEndsWithin);
  // Nobody else ends the processes of a child that has ended itself, or is not restarted.
  for (const std::string& name : names) {
    const auto published = published_.find(name);
    if (children_.contains(name) && published && have_ended(published->actors))
      stop_child_actors(name);
  }
}

void Cluster::actor_exited(const ActorAddress& actor) {
  published_.note_end(actor);
  // Later requests of the actor are refused from now on.
  const bool has_children = !children_.end(std::array{actor}).empty();
  if (has_children || children_.contains(mesh_of(actor))) end_children_later(actor);
}

void Cluster::end_children_later(const ActorAddress& parent) {
  {
    const std::lock_guard lock(ended_mutex_);
    ended_.push_back(parent);
    if (std::exchange(ended_told_, true)) return;
  }
  tell_ended();
}

void Cluster::release_orphans_later() {
  {
    const std::lock_guard lock(ended_mutex_);
    orphans_ = meshes_.orphans();
    if (orphans_.empty() || std::exchange(ended_told_, true)) return;
  }
  tell_ended();
}

void Cluster::tell_ended() {
  {
    const std::lock_guard lock(ended_mutex_);
    ended_told_ = !ended_.empty() || !orphans_.empty();
    if (!ended_told_) return;
  }
  (void)spawner_.within(kNoDeadline).tell<&Spawner::end_children>();
  // Urgent messages are limited, and a refused one is lost.
  system_.run_after(kTellAgainAfter,
                    [ear = ear_] { ear.tell([](Cluster& cluster) { cluster.tell_ended(); }); });
}

void Cluster::end_all_children() {
  const std::vector<std::string> names = children_.end_all();
  if (!failures_.is_cluster_lost()) stop_ending(names);
}

void Cluster::adopt_children(const std::string& parent_mesh,
                             const std::vector<ActorAddress>& parents) {
  std::map<ProcessId, ProcessRef> processes;
  std::set<std::pair<ProcessId, ActorId>> living;
  for (const ActorAddress& parent : parents) {
    if (is_lost_actor(parent.actor)) continue;
    processes.emplace(parent.process.id, parent.process);
    living.emplace(parent.process.id, parent.actor);
  }
  const ListedChildren listed = children_in(processes);
  for (const ChildSpawn& child : listed.children) {
    if (!living.contains({child.parent.process.id, child.parent.actor})) continue;
    const std::string& name = child.actors.name();
    try {
      adopt_child(child);
    } catch (const Error& error) {
      // The parent may have ended meanwhile. The child is released below.
      system_.options().log.warning("{} is not adopted: {}", name, error.message());
    }
  }
  // Without the whole list, a child that is missing there may have a living parent.
  if (listed.is_complete) release_inherited_children(parent_mesh);
}

void Cluster::adopt_child(const ChildSpawn& request) {
  const std::string& name = request.actors.name();
  // Without processes, the children have ended.
  if (!meshes_.has_inherited(name)) return;
  const ChildActors::Begun begun = children_.begin(request);
  if (begun.actors) return;
  try {
    MeshKey ignored;
    const SpawnedActors adopted =
        spawn_actors(ignored, wanted_actors(request.actors), child_options(request), begun.id);
    if (finish_child(begun.id, named_actors(system_, adopted))) return;
    stop_child_actors(name);
  } catch (...) {
    children_.erase(begun.id);
    throw;
  }
  children_.erase(begun.id);
}

}  // namespace weft::actors

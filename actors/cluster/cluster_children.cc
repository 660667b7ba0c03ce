// Actors that an owner's actors spawn: their spawns, ends, and adoption by a restarted owner.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
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

/// Returns the name of an actor's mesh.
std::string mesh_of(const ActorAddress& actor) {
  return actor.label.substr(0, actor.label.find('['));
}

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
                [this](const ActorAddress& parent) { parent_ended(parent); }},
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
  std::vector<Future<std::vector<ChildSpawn>>> lists;
  for (const MeshProcesses& mesh : meshes_.meshes())
    for (const DeviceProcess& member : mesh.processes)
      if (member.process.id != ProcessId())
        lists.push_back(system_.named<Spawner>(member.process, kSpawnerName)
                            .within(kChildrenListedWithin)
                            .call<&Spawner::children_of>(kNoActor));
  bool has_parent = false;
  for (auto& list : lists) {
    try {
      for (const ChildSpawn& child : list.get()) has_parent |= child.actors.name() == name;
    } catch (const Error&) {
      // The children of a process that has died have lost their parent.
    }
  }
  if (has_parent) return true;
  // Their parent has died, or the predecessor began this spawn, without finishing it.
  const bool uses = static_cast<IfExists>(request.actors.if_exists) == IfExists::kUse;
  if (!uses || request.is_repeated) release_inherited(name);
  return false;
}

bool Cluster::finish_child(ChildActors::Id child, const NamedActors& actors) {
  if (!children_.finish(child, actors)) return false;
  // They may have been given up and stopped already, or have ended before they had a name.
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
    if (children_.has_spawned(request)) stop_child_actors(request.name);
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

void Cluster::end_children(const std::vector<ActorAddress>& ending) {
  // Lost actors have no id, which would stand for all actors of the process.
  std::vector<ActorAddress> parents = ending;
  std::erase_if(parents, [](const ActorAddress& parent) { return parent.actor == kNoActor; });
  for (const std::string& name : children_.end(parents)) stop_child_actors(name);
  children_.wait_until_gone(parents, kSpawnEndsWithin);
}

void Cluster::end_children_of(const MeshKey& mesh) {
  const auto published = published_.find(mesh.name);
  if (published && published->key == mesh) end_children(published->actors.addresses);
}

void Cluster::parent_ended(const ActorAddress& parent) {
  if (parent.actor == kNoActor) {
    for (const std::string& name : children_.end_process(parent.process.id))
      stop_child_actors(name);
    return;
  }
  std::vector<ActorAddress> parents;
  {
    const std::lock_guard lock(exited_mutex_);
    parents = std::exchange(exited_, {});
  }
  if (std::ranges::find(parents, parent) == parents.end()) parents.push_back(parent);
  end_children(parents);
  // Nobody else ends the processes of a child that has ended itself, or is not restarted.
  std::set<std::string> names;
  for (const ActorAddress& each : parents) names.insert(mesh_of(each));
  for (const std::string& name : names) {
    const auto published = published_.find(name);
    if (children_.contains(name) && published && have_ended(published->actors))
      stop_child_actors(name);
  }
}

void Cluster::actor_exited(const ActorAddress& actor) {
  // Later requests of the actor are refused from now on.
  const bool has_children = !children_.end(std::array{actor}).empty();
  if (!has_children && !children_.contains(mesh_of(actor))) return;
  {
    const std::lock_guard lock(exited_mutex_);
    exited_.push_back(actor);
    if (std::exchange(exited_told_, true)) return;
  }
  tell_exited();
}

void Cluster::tell_exited() {
  std::optional<ActorAddress> first;
  {
    const std::lock_guard lock(exited_mutex_);
    exited_told_ = !exited_.empty();
    if (!exited_told_) return;
    first = exited_.front();
  }
  (void)spawner_.within(kNoDeadline).tell<&Spawner::parent_ended>(*first);
  // Urgent messages are limited, and a refused one is lost.
  system_.run_after(kTellAgainAfter,
                    [ear = ear_] { ear.tell([](Cluster& cluster) { cluster.tell_exited(); }); });
}

void Cluster::end_all_children() {
  for (const std::string& name : children_.end_all())
    if (!failures_.is_cluster_lost()) stop_child_actors(name);
}

void Cluster::adopt_children(const std::vector<ActorAddress>& parents) {
  std::vector<Future<std::vector<ChildSpawn>>> lists;
  const auto warn = [this](const std::string& what, const Error& error) {
    system_.options().log.warning("{} not adopted: {}", what, error.message());
  };
  for (const ActorAddress& parent : parents) {
    if (parent.actor == kNoActor) continue;
    lists.push_back(system_.named<Spawner>(parent.process, kSpawnerName)
                        .within(kChildrenListedWithin)
                        .call<&Spawner::children_of>(parent.actor));
  }
  for (auto& list : lists) {
    std::vector<ChildSpawn> children;
    try {
      children = list.get();
    } catch (const Error& error) {
      warn("children of " + parents.front().label + " are", error);
    }
    for (const ChildSpawn& child : children) {
      try {
        adopt_child(child);
      } catch (const Error& error) {
        warn(child.actors.name() + " is", error);
      }
    }
  }
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

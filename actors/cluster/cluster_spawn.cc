// Meshes of an owner: spawning, names, renewal and release.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/cluster/cluster.h"
#include "actors/cluster/described_spawn.h"
#include "actors/cluster/keeper.h"

namespace weft::actors {
namespace {

constexpr Nanoseconds kSpawnWithin = std::chrono::seconds(60);
constexpr auto kFindWithin = std::chrono::seconds(30);
/// Time in which actors that an operator stops end their calls.
constexpr auto kStopActorsWithin = std::chrono::seconds(10);
constexpr auto kReleaseWithin = std::chrono::seconds(5);
/// Number of inherited meshes that are released at once, at most. The head limits urgent calls.
constexpr std::size_t kReleasesAtOnce = 64;
/// Epoch of a stop that ends the actors of all epochs of a mesh.
constexpr std::uint64_t kAnyEpoch = 0;

std::vector<ProcessRef> addresses_of(const MeshProcesses& mesh) {
  std::vector<ProcessRef> addresses;
  for (const DeviceProcess& device : mesh.processes) addresses.push_back(device.process);
  return addresses;
}

std::vector<ActorAddress> actor_addresses(const SpawnedActors& actors) {
  std::vector<ActorAddress> addresses;
  for (const auto& actor : actors.addresses) addresses.push_back(*actor);
  return addresses;
}

/// Throws Error(kFailedPrecondition) if existing actors have another shape than is wanted.
void check_shape(const NamedActors& existing, const SpawnedActors& wanted) {
  if (existing.shape == wanted.shape) return;
  throw_error(ErrorCode::kFailedPrecondition,
              "the actors named '{}' have the shape {}, and {} is wanted; take another name, or "
              "this shape",
              wanted.name, to_string(existing.shape), to_string(wanted.shape));
}

}  // namespace

MeshProcesses Cluster::spawn_processes(const MeshRequest& request, ChildActors::Id child) {
  // Processes whose answer was lost are released when this program reconnects.
  return head_.ask<MeshProcesses>(
      kSpawnWithin, [&](const ActorRef<Head>& head, std::uint64_t losses) {
        if (children_.is_abandoned(child))
          throw_error(ErrorCode::kFailedPrecondition, "the actor that spawns '{}' has ended",
                      request.mesh);
        MeshProcesses started = head.call<&Head::spawn>(request).get();
        // After a loss, this program may have told the head that it does not have the mesh.
        if (!meshes_.add_if([&] { return head_.losses() == losses; }, started))
          throw_error(ErrorCode::kUnavailable, "the connection to the head was lost");
        return started;
      });
}

SpawnedActors Cluster::spawn_actors(MeshKey& key, SpawnedActors wanted, const SpawnOptions& options,
                                    ChildActors::Id child) {
  if (options.shares_processes()) wanted.thread = ActorThread::kShared;
  if (options.supervised())
    if (auto adopted = adopt_left(key, wanted, options)) return std::move(*adopted);
  const Acquired acquired = acquire(wanted.name, wanted.shape, options, child);
  key = acquired.key;
  if (options.supervised()) supervisor_.add(key, options);
  std::optional<Error> problem;
  try {
    SpawnedActors actors =
        system_.spawn_actors(std::move(wanted), acquired.processes, RestartInfo{key.epoch});
    if (!options.supervised()) {
      published_.publish(key, actors);
      return actors;
    }
    actors = publish_supervised(key, std::move(actors));
    begin_restarts(key, actors);
    return actors;
  } catch (const Error& error) {
    problem = error;
  }
  rethrow(key, *problem);
}

std::optional<SpawnedActors> Cluster::adopt_left(MeshKey& key, const SpawnedActors& wanted,
                                                 const SpawnOptions& options) {
  const auto left = adopt_processes(wanted.name, wanted.shape.size());
  if (!left) return std::nullopt;
  key = left->key;
  supervisor_.add(key, options);
  std::optional<Error> problem;
  try {
    SpawnedActors actors = system_.adopt_actors(wanted, left->processes);
    std::set<std::uint32_t> lost;
    for (std::uint32_t rank = 0; rank < actors.addresses.size(); ++rank)
      if (is_lost_actor(actors.addresses[rank]->actor)) lost.insert(rank);
    const std::set<std::uint32_t> ended = lost.empty() ? lost : ended_ranks(wanted.name);
    if (std::ranges::includes(ended, lost) || options.decide ||
        options.policy() != OnFailure::kEscalate) {
      actors = publish_supervised(key, std::move(actors), ended);
      // The children of lost actors end before these are restarted.
      adopt_children(wanted.name, actor_addresses(actors));
      begin_restarts(key, actors);
      return actors;
    }
    // The children of those that live have no parent among the actors that are spawned next. From
    // now on, no more can be spawned.
    end_children(actor_addresses(actors));
    release_inherited_children(wanted.name);
    release_last(key);
    return std::nullopt;
  } catch (const Error& error) {
    problem = error;
  }
  rethrow(key, *problem);
}

std::set<std::uint32_t> Cluster::ended_ranks(const std::string& name) {
  try {
    return head_
        .ask<NamedActors>(kFindWithin,
                          [&](const ActorRef<Head>& head, std::uint64_t) {
                            return head.call<&Head::find_actors>(FindActors{name, 0}).get();
                          })
        .ended;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    return {};
  }
}

bool Cluster::has_failed(const std::string& name) const {
  const auto keys = meshes_.keys();
  return std::ranges::any_of(
      keys, [&](const MeshKey& key) { return key.name == name && failures_.has_failed(key); });
}

Cluster::SpawnResult Cluster::spawn_or_find(MeshKey& key, SpawnedActors wanted,
                                            const SpawnOptions& options, ChildActors::Id child) {
  const bool keeps = options.lifetime == Lifetime::kCluster;
  const bool uses = options.if_exists == IfExists::kUse;
  const std::string name = keeps ? fmt::format("{}/{}", kKeeperName, wanted.name) : wanted.name;
  if (uses && keeps) {
    if (auto existing = find_existing(name, wanted, Nanoseconds::zero())) return {{}, existing};
  } else if (uses) {
    // Of the names of this run, this object has all.
    if (const auto own = published_.find(wanted.name)) {
      check_shape(own->actors, wanted);
      return {{}, OtherActors{name, own->actors}};
    }
  }
  try {
    if (keeps) return {{}, OtherActors{name, keep(wanted, options)}};
    return {spawn_actors(key, wanted, options, child), {}};
  } catch (const Error& error) {
    // The name of a mesh that was given up does not come back.
    if (!uses || error.code() != ErrorCode::kAlreadyExists || (!keeps && has_failed(wanted.name)))
      throw;
  }
  // Another thread or program spawns them at the same time.
  if (auto existing = find_existing(name, wanted, kSpawnWithin)) return {{}, existing};
  throw_error(ErrorCode::kUnavailable,
              "the actors named '{}' have ended while they were looked for; spawn them again",
              name);
}

NamedActors Cluster::keep(const SpawnedActors& wanted, const SpawnOptions& options) {
  if (options.decide || !options.place.places.empty() || !options.place.reservation.name.empty())
    throw_error(
        ErrorCode::kInvalidArgument,
        "{}: `decide`, and the devices and reservation of `place`, are of this program, and "
        "cannot go with .lifetime = kCluster; use .on_failure and the hosts of `place`",
        wanted.name);
  const MeshRequest request = request_of(wanted.name, wanted.shape, options);
  const OnFailure policy =
      options.on_failure == OnFailure::kUnspecified ? OnFailure::kOneForOne : options.on_failure;
  SpawnDescription actors = describe_spawn(wanted, options);
  actors.mesh.binary = request.binary;
  actors.mesh.binary_sha256 = request.binary_sha256;
  actors.mesh.environment = request.environment;
  actors.mesh.memory_cap = request.memory_cap;
  actors.on_failure = static_cast<std::uint8_t>(policy);
  actors.restarts = options.restarts.value_or(SpawnOptions::kDefaultRestarts);
  return head_.ask<NamedActors>(kSpawnWithin, [&](const ActorRef<Head>& head, std::uint64_t) {
    const ProcessRef keeper = head.call<&Head::keeper>().get();
    return system_.named<KeeperActor>(keeper, "keeper")
        .within(kSpawnWithin + kReleaseWithin)  // the keeper waits for devices itself
        .call<&KeeperActor::spawn>(actors)
        .get();
  });
}

std::optional<Cluster::OtherActors> Cluster::find_existing(const std::string& name,
                                                           const SpawnedActors& wanted,
                                                           Nanoseconds within) {
  std::optional<NamedActors> found;
  try {
    found = head_.ask<NamedActors>(kFindWithin + within, [&](const ActorRef<Head>& head,
                                                             std::uint64_t) {
      return head.call<&Head::find_actors>(FindActors{name, std::int64_t{within.count()}}).get();
    });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    return std::nullopt;
  }
  check_shape(*found, wanted);
  return OtherActors{name, std::move(*found)};
}

void Cluster::request_stop(const std::string& name) {
  head_.ask<bool>(kSpawnWithin, [&](const ActorRef<Head>& head, std::uint64_t) {
    head.call<&Head::stop_actors>(name).get();
    return true;
  });
}

task<void> Cluster::stop_published(Context& context, std::string name) {
  // The end of a restart may take long, and failures of other meshes must not wait for it.
  auto stopping = stops_.run(context, "stop " + name, [this, name] {
    const bool is_published = published_.find(name).has_value();
    if (is_published)
      reports_.warn({"actors stopped", fmt::format("{} is stopped by its name", name)});
    if (!is_published && options_.on_stop_unpublished) options_.on_stop_unpublished(name);
    else stop_actors(name);
  });
  co_await stopping;
}

void Cluster::stop_actors(const std::string& name) {
  const auto published = published_.find(name);
  if (!published)
    throw_error(ErrorCode::kNotFound, "{} has no actors named '{}' any more", options_.name, name);
  stopping(published->key);
  const auto last = published_.find(name);
  if (!last || last->key != published->key) return;
  std::vector<std::shared_ptr<CallState>> stops;
  for (const ActorAddress& actor : last->actors.addresses)
    stops.push_back(
        system_.stop_actor(std::make_shared<const ActorAddress>(actor), kStopActorsWithin));
  for (const auto& stop : stops) stop->wait_until(TimePoint::max());
  release_last(published->key);
  forget_children(name);
}

void Cluster::stopping(const MeshKey& spawned) {
  supervisor_.end(spawned);
  end_children_of(spawned);
}

void Cluster::release_inherited(const std::string& name, const std::function<void()>& before) {
  const std::vector<MeshProcesses> left = meshes_.begin_release(name);
  if (left.empty()) return;
  try {
    if (before) before();
  } catch (...) {
    meshes_.end_release(left, true);
    throw;
  }
  release_all_inherited(left);
}

void Cluster::release_inherited_children(const std::string& parent_mesh) {
  release_all_inherited(meshes_.begin_release_of_children(parent_mesh));
}

void Cluster::release_all_inherited(const std::vector<MeshProcesses>& left) {
  if (left.empty()) return;
  std::vector<MeshKey> keys;
  for (const MeshProcesses& mesh : left) {
    // Handles of other actors reach the next ones of that name.
    if (!mesh.parent_mesh.empty()) published_.withdraw_inherited(mesh.key.name);
    keys.push_back(mesh.key);
    if (keys.size() < kReleasesAtOnce && keys.back() != left.back().key) continue;
    release(std::exchange(keys, {}));
  }
  // Withdrawn names are gone at the head before other threads can take the names.
  published_.wait_until_confirmed();
  meshes_.end_release(left);
}

Cluster::Acquired Cluster::acquire(const std::string& name, const MeshShape& shape,
                                   const SpawnOptions& options, ChildActors::Id child) {
  failures_.check_spawn();
  const MeshProcesses started = spawn_processes(request_of(name, shape, options, child), child);
  // A predecessor may have left actors of that name, which the head did not know, nor their epoch.
  if (options_.is_keeper || options_.description.restart_count > 0)
    (void)stop_in_shared_processes(
        {MeshProcesses{{name, kAnyEpoch}, started.processes, started.process}});
  if (options_.memory_cap != 0) reports_.add_memory_caps(started.processes, options_.memory_cap);
  return {started.key, addresses_of(started)};
}

std::optional<Cluster::Acquired> Cluster::adopt_processes(const std::string& name,
                                                          std::int64_t size) {
  const auto left = meshes_.take_inherited(name);
  if (!left) return std::nullopt;
  if (std::ssize(left->processes) == size) return Acquired{left->key, addresses_of(*left)};
  release_inherited_children(name);
  release({left->key});
  return std::nullopt;
}

MeshRequest Cluster::request_of(const std::string& name, const MeshShape& shape,
                                const SpawnOptions& options, ChildActors::Id child) const {
  const MeshPlacement& where = options.place;
  MeshRequest request{name, shape, where.hosts, binary_, binary_sha256_, options_.environment};
  request.environment.insert(request.environment.end(), where.environment.begin(),
                             where.environment.end());
  request.memory_cap = options_.memory_cap;
  request.places = where.places;
  request.run = system_.options().run;
  request.needs = options.needs;
  request.process = options.process;
  request.strategy = where.strategy;
  request.labels = where.labels;
  request.reservation = where.reservation;
  request.first_bundle = where.first_bundle;
  request.parent_mesh = children_.parent_mesh_of(child, name);
  if (where.executable) {
    request.binary = where.executable->path;
    request.binary_sha256 = where.executable->sha256;
    request.memory_cap = where.executable->memory_cap;
  }
  return request;
}

Cluster::Replaced Cluster::replace(const MeshKey& key, const MeshShape& shape,
                                   const SpawnOptions& options,
                                   const std::set<std::uint32_t>& broken) {
  const MeshRenewal renewal{
      key, request_of(key.name, shape, options), {broken.begin(), broken.end()}};
  const ActorProcess sharing =
      options.shares_processes() ? ActorProcess::kShared : ActorProcess::kOwn;
  return head_.ask<Replaced>(kSpawnWithin, [&](const ActorRef<Head>& head, std::uint64_t) {
    const RenewedMesh mesh = head.call<&Head::renew>(renewal).get();
    const MeshProcesses members{mesh.key, mesh.processes, sharing, renewal.request.parent_mesh};
    meshes_.replace(key, members);
    Replaced replaced{mesh.key, addresses_of(members), {{}, {}, mesh.problem, mesh.code}};
    for (const DeviceProcess& process : mesh.processes)
      if (process.process.id == ProcessId()) replaced.renewed.missing.insert(process.rank);
    return replaced;
  });
}

std::vector<std::pair<ProcessRef, MeshKey>> Cluster::stop_in_shared_processes(
    const std::vector<MeshProcesses>& meshes) {
  std::vector<std::pair<ProcessRef, MeshKey>> stops;
  for (const MeshProcesses& mesh : meshes) {
    if (mesh.process != ActorProcess::kShared) continue;
    std::set<ProcessId> processes{ProcessId()};
    for (const DeviceProcess& member : mesh.processes)
      if (processes.insert(member.process.id).second) stops.emplace_back(member.process, mesh.key);
  }
  std::vector<std::shared_ptr<CallState>> calls;
  for (const auto& [process, key] : stops)
    calls.push_back(system_.stop_actors_of(process, key.name, key.epoch, kStopActorsWithin));
  std::vector<std::pair<ProcessRef, MeshKey>> unconfirmed;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    calls[i]->wait_until(TimePoint::max());
    if (calls[i]->error()) unconfirmed.push_back(stops[i]);
  }
  return unconfirmed;
}

void Cluster::end_in_shared_processes(const std::vector<MeshProcesses>& meshes) {
  for (const auto& [process, key] : stop_in_shared_processes(meshes))
    repeated_stops_.add(process, key);
}

void Cluster::release(const std::vector<MeshKey>& meshes) {
  // After the release nobody would report why a device of a mesh was lost.
  failures_.wait_for_explanation();
  std::vector<MeshProcesses> removed;
  for (const MeshKey& key : meshes)
    if (auto mesh = meshes_.remove(key)) removed.push_back(std::move(*mesh));
  if (removed.empty() || failures_.is_cluster_lost()) return;
  end_in_shared_processes(removed);
  std::vector<Future<void>> releases;
  try {
    const auto head = head_.reach({}).head.within(kReleaseWithin);
    for (const MeshProcesses& mesh : removed)
      releases.push_back(head.call<&Head::release>(mesh.key));
  } catch (const Error&) {
    // A head that is away learns of it when this program reconnects or has ended.
  }
  for (Future<void>& released : releases) {
    try {
      released.get();
    } catch (const Error&) {
      // The same.
    }
  }
}

}  // namespace weft::actors

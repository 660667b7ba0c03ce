// Deaths of processes of an owner's meshes: failures, and restarts of actors.

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "actors/cluster/cluster.h"
#include "actors/supervision/stopped_process.h"

namespace weft::actors {
namespace {

/// Time for agents to report a silent process. They count from another moment, twice a second.
constexpr auto kAgentTellsWithin = std::chrono::milliseconds(1500);
/// Time for an incident (agent -> head -> owner) to arrive after the lost connection that it
/// explains.
constexpr auto kIncidentWithin = std::chrono::milliseconds(500);

/// Returns whether all processes of an incident are known, and have no device.
bool is_without_devices(const Incident& incident) {
  return std::ranges::all_of(incident.failures, [](const ProcessFailure& failure) {
    return !failure.is_whole_mesh() && failure.device == kNoDevice;
  });
}

}  // namespace

/// Actions of the supervisor on its cluster.
class Cluster::Actions final : public SupervisorActions {
 public:
  explicit Actions(Cluster& cluster) : cluster_(cluster) {}

  Renewed renew(const MeshKey& key, const MeshShape& shape, const SpawnOptions& options,
                const std::set<std::uint32_t>& broken) override {
    // Throws at once if the head is away. The supervisor, which can be interrupted, waits.
    (void)cluster_.head_.reach({});
    try {
      Replaced replaced = cluster_.replace(key, shape, options, broken);
      const RenewResult& result = replaced.renewed;
      return {replaced.key, std::move(replaced.processes), result.missing,
              Error(result.code,
                    result.problem.empty() ? "another process died meanwhile" : result.problem)};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound) throw;
    }
    // The head has released the mesh while this process was not connected.
    if (const auto released = cluster_.meshes_.remove(key))
      cluster_.end_in_shared_processes({*released});
    Acquired acquired = cluster_.acquire(key.name, shape, options);
    Renewed renewed{acquired.key, std::move(acquired.processes), {}};
    renewed.has_lost_all = true;
    return renewed;
  }
  SpawnedActors respawn(const SpawnedActors& actors, const std::vector<ProcessRef>& processes,
                        const RestartInfo& info, const std::set<std::uint32_t>& again) override {
    SpawnedActors spawned = cluster_.system_.spawn_actors(actors, processes, info, again);
    cluster_.published_.republish(spawned);
    return spawned;
  }
  void restart_begins(const ActorAddress& actor) override {
    cluster_.system_.restart_begins(actor);
  }
  void restart_ends(const ActorAddress& actor, const Outcome<ActorAddress>& now) override {
    cluster_.system_.restart_ends(actor, now);
  }
  void end_supervision(const ActorAddress& actor, const Error& why) override {
    cluster_.system_.end_supervision(actor, why);
  }
  bool has_ended(const ActorAddress& actor) const override {
    return cluster_.system_.has_ended(actor);
  }
  void end_children(const std::vector<ActorAddress>& parents) override {
    cluster_.end_children(parents);
  }
  void give_up(const Incident& incident, const Error& error) override {
    cluster_.supervised_mesh_failed(incident, error);
  }
  void report(const std::string& kind, const std::string& text) override {
    cluster_.reports_.warn({kind, text});
  }

 private:
  Cluster& cluster_;
};

std::unique_ptr<SupervisorActions> Cluster::make_actions() {
  return std::make_unique<Actions>(*this);
}

SpawnedActors Cluster::publish_supervised(const MeshKey& key, SpawnedActors actors,
                                          const std::set<std::uint32_t>& ended) {
  for (std::uint32_t rank = 0; rank < actors.addresses.size(); ++rank) {
    ActorAddress owned = *actors.addresses[rank];
    owned.owner = system_.self();
    system_.supervise(owned);
    if (is_lost_actor(owned.actor)) {
      // Calls that come before its restart wait for it.
      if (!ended.contains(rank)) system_.restart_begins(owned);
      else system_.restart_ends(owned, Error(ErrorCode::kNotFound, owned.label + " has ended"));
    }
    actors.addresses[rank] = std::make_shared<const ActorAddress>(std::move(owned));
  }
  published_.publish(key, actors);
  return actors;
}

void Cluster::begin_restarts(const MeshKey& key, const SpawnedActors& actors) {
  supervisor_.begin(key, actors);
  if (const MeshFailure lost = lost_actors(key, actors); !lost.dead.empty())
    supervisor_.failed(lost);
}

MeshFailure Cluster::lost_actors(const MeshKey& key, const SpawnedActors& actors) const {
  MeshFailure failure;
  failure.incident.mesh = key.name;
  failure.incident.epoch = key.epoch;
  for (std::uint32_t rank = 0; rank < actors.addresses.size(); ++rank) {
    const ActorAddress& address = *actors.addresses[rank];
    if (!is_lost_actor(address.actor) || system_.has_ended(address)) continue;
    failure.dead.push_back(address.process.id);
    ProcessFailure lost;
    lost.actor = address.label;
    lost.mesh = key.name;
    lost.epoch = key.epoch;
    lost.rank = rank;
    lost.host_failure = "it does not answer the driver that was started again";
    if (const auto device = meshes_.device(key, rank)) lost.host = device->place.host;
    failure.incident.failures.push_back(std::move(lost));
  }
  return failure;
}

void Cluster::release_last(const MeshKey& spawned) {
  published_.withdraw(spawned);
  // The head reports deaths in it until it has released it.
  release({supervisor_.present_key(spawned).value_or(spawned)});
  supervisor_.forget(spawned);
  // Nobody finds the name once the actors have ended.
  published_.wait_until_confirmed();
}

void Cluster::supervised_mesh_failed(const Incident& incident, const Error& error) {
  // Other meshes, and later spawns, are not touched.
  failures_.record(incident, [] { return false; });
  const MeshKey key{incident.mesh, incident.epoch};
  const std::vector<ActorAddress> actors = actors_of(key.name, nullptr);
  const auto published = published_.find(key.name);
  if (published) {
    // Children, and actors of the cluster, have no handle here that releases their devices.
    if (children_.contains(key.name)) end_children_later(published->actors.addresses.front());
    else if (options_.is_keeper)
      watcher_.within(kNoDeadline).tell<&HeadNotifications::stop_actors>(key.name);
    else published_.withdraw(published->key);
  }
  for (const MeshProcesses& mesh : meshes_.meshes()) {
    if (mesh.key.name != key.name) continue;
    // Actors of other meshes live in the processes.
    if (mesh.process == ActorProcess::kShared) {
      system_.fail_calls(actors, error);
      continue;
    }
    for (const DeviceProcess& member : mesh.processes)
      system_.declare_dead(member.process.id, error);
  }
  if (published) end_children(published->actors.addresses);
}

std::vector<ActorAddress> Cluster::actors_of(const std::string& mesh,
                                             const std::vector<ProcessId>* processes) const {
  const auto published = published_.find(mesh);
  if (!published) return {};
  std::vector<ActorAddress> actors = published->actors.addresses;
  if (processes != nullptr)
    std::erase_if(actors, [&](const ActorAddress& actor) {
      return std::ranges::find(*processes, actor.process.id) == processes->end();
    });
  return actors;
}

bool Cluster::fails_alone(const MeshKey& key) const {
  if (supervisor_.supervises(key)) return true;
  // Not spawned again yet by a driver that was started again, or under construction.
  const auto first = meshes_.device(key, 0);
  return first && first->place.device == kNoDevice;
}

void Cluster::report_peer_loss(const ProcessRef& peer, const std::string& how) {
  if (!head_.report_peer_loss(peer, how)) record_loss(peer.id);
}

void Cluster::record_loss(ProcessId process) {
  for (const auto& member : meshes_.find(process))
    if (!fails_alone(member.mesh))
      failures_.record_lost_device(member.mesh, [&] { return !meshes_.find(process).empty(); });
}

void Cluster::peer_timed_out(const ProcessRef& peer, Nanoseconds silence) {
  if (head_.report_peer_loss(peer, describe_silence(silence, 0))) return;
  record_loss(peer.id);
  system_.run_after(kAgentTellsWithin, [ear = ear_, id = peer.id, silence] {
    ear.tell([&](Cluster& cluster) { cluster.report_silent(id, silence); });
  });
}

void Cluster::report_silent(ProcessId process, Nanoseconds silence) {
  // The head knows all meshes of the process.
  const auto members = meshes_.find(process);
  const auto member = std::ranges::find_if(members, [this](const MeshRegistry::MeshMember& each) {
    return !failures_.has_failed(each.mesh);
  });
  if (member == members.end()) return;
  const DeviceProcess& device = member->device;
  DeathReport report{member->mesh, device.rank, device.place.device, {}};
  report.evidence.has_parent_report = true;
  report.evidence.pid = device.pid;
  report.evidence.silence_text = describe_silence(silence, 0);
  report.evidence.log_file = device.log_file;
  head_.tell<&Head::process_died>(report);
}

void Cluster::rethrow(const MeshKey& key, const Error& error) {
  std::optional<Error> better;
  if (error.code() == ErrorCode::kPeerDied || error.code() == ErrorCode::kUnavailable)
    better = failures_.of_mesh(key, kIncidentWithin);
  release_last(key);
  throw better ? *better : error;
}

void Cluster::mesh_failed(const MeshFailure& failure) {
  const Error error = failure.incident.error();
  const MeshKey key{failure.incident.mesh, failure.incident.epoch};
  // This owner may not hold the mesh: it is being spawned, or released.
  if (fails_alone(key) || is_without_devices(failure.incident)) {
    supervised_processes_died(key, failure);
    return;
  }
  for (const ProcessId process : failure.dead)
    if (children_.has_children(process))
      end_children_later(ActorAddress{{process, "", {}}, kNoActor, ""});
  const bool survives = failures_.survives_deaths();
  // Done before the owner learns of the failure and makes other calls.
  if (survives) fail_dead(error, failure);
  // A mesh that was renewed meanwhile is recovered.
  const auto counts = [&] { return !survives || meshes_.contains(key); };
  if (!failures_.record(failure.incident, counts)) return;
  reports_.add(RunEvent::of(failure.incident));
  if (!survives)
    fail_meshes(error, failures_.scope() == FailureScope::kOneMesh ? &failure : nullptr);
}

void Cluster::supervised_processes_died(const MeshKey& key, const MeshFailure& failure) {
  const Error error = failure.incident.error();
  if (failures_.record(failure.incident, [] { return false; }))
    reports_.add(RunEvent::of(failure.incident));
  for (const ProcessId process : failure.dead) system_.confirm_deaths_of(process);
  // The calls of each mesh fail with its own incident.
  system_.declare_dead(actors_of(key.name, &failure.dead), error);
  for (const ProcessId process : failure.dead) {
    const auto members = meshes_.find(process);
    // The report about the last mesh with actors in a shared process follows at once.
    if (std::ranges::all_of(members, [&](const MeshRegistry::MeshMember& member) {
          return member.mesh.name == key.name || failures_.has_failed(member.mesh);
        }))
      system_.declare_dead(process, error);
  }
  supervisor_.failed(failure);
}

void Cluster::lost(const Error& error) {
  if (!failures_.record_cluster_loss(error)) return;
  supervisor_.give_up_all(error);
  fail_meshes(error, nullptr);
  head_.give_up(error);
  system_.declare_dead(head_.process().id, error);
  if (options_.on_lost) options_.on_lost(error);
}

void Cluster::fail_dead(const Error& error, const MeshFailure& failure) {
  const std::set<ProcessId> dead(failure.dead.begin(), failure.dead.end());
  for (const ProcessId process : dead) system_.declare_dead(process, error);
  const std::vector<MeshProcesses> meshes = meshes_.meshes();
  const MeshKey failed{failure.incident.mesh, failure.incident.epoch};
  if (std::ranges::none_of(meshes, [&](const MeshProcesses& mesh) { return mesh.key == failed; }))
    return;
  for (const MeshProcesses& mesh : meshes) {
    if (failures_.scope() == FailureScope::kOneMesh && mesh.key != failed) continue;
    for (const DeviceProcess& member : mesh.processes)
      if (!fails_alone(mesh.key) && !dead.contains(member.process.id))
        system_.fail_calls(member.process.id, error);
  }
}

void Cluster::fail_meshes(const Error& error, const MeshFailure* only) {
  std::vector<ProcessId> processes;
  if (only != nullptr) processes = only->mesh_processes;
  else
    for (const MeshProcesses& mesh : meshes_.meshes())
      if (!fails_alone(mesh.key) || failures_.is_cluster_lost())
        for (const DeviceProcess& member : mesh.processes) processes.push_back(member.process.id);
  for (const ProcessId process : processes) system_.declare_dead(process, error);
}

}  // namespace weft::actors

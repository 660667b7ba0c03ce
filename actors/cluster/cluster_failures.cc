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

}  // namespace

/// Actions of the supervisor on its cluster.
class Cluster::Actions final : public SupervisorActions {
 public:
  explicit Actions(Cluster& cluster) : cluster_(cluster) {}

  Renewed renew(const MeshKey& key, const MeshShape& shape, const MeshPlacement& where,
                const std::set<std::uint32_t>& broken) override {
    // Throws at once if the head is away. The supervisor, which can be interrupted, waits.
    (void)cluster_.head_.reach({});
    try {
      Replaced replaced = cluster_.replace(key, shape, where, broken);
      const RenewResult& result = replaced.renewed;
      return {replaced.key, std::move(replaced.processes), result.missing,
              Error(result.code,
                    result.problem.empty() ? "another process died meanwhile" : result.problem)};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound) throw;
    }
    // The head has released the mesh while this process was not connected.
    cluster_.meshes_.remove(key);
    Acquired acquired = cluster_.acquire(key.name, shape, where);
    return {acquired.key, std::move(acquired.processes), {}};
  }
  SpawnedActors respawn(const SpawnedActors& actors, const std::vector<ProcessRef>& processes,
                        const RestartInfo& info) override {
    SpawnedActors spawned = cluster_.system_.spawn_actors(actors, processes, info);
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

SpawnedActors Cluster::supervise(const MeshKey& key, SpawnedActors actors) {
  for (auto& actor : actors.addresses) {
    ActorAddress owned = *actor;
    owned.owner = system_.self();
    system_.supervise(owned);
    actor = std::make_shared<const ActorAddress>(std::move(owned));
  }
  published_.publish(key, actors);
  supervisor_.begin(key, actors);
  if (const MeshFailure lost = lost_actors(key, actors); !lost.dead.empty())
    supervisor_.failed(lost);
  return actors;
}

MeshFailure Cluster::lost_actors(const MeshKey& key, const SpawnedActors& actors) const {
  MeshFailure failure;
  failure.incident.mesh = key.name;
  failure.incident.epoch = key.epoch;
  for (std::uint32_t rank = 0; rank < actors.addresses.size(); ++rank) {
    const ActorAddress& address = *actors.addresses[rank];
    if (address.actor != kNoActor) continue;
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
  release(supervisor_.forget(spawned).value_or(spawned));
  // Nobody finds the name once the actors have ended.
  published_.wait_until_confirmed();
}

void Cluster::supervised_mesh_failed(const Incident& incident, const Error& error) {
  // Other meshes, and later spawns, are not touched.
  failures_.record(incident, [] { return false; });
  const MeshKey key{incident.mesh, incident.epoch};
  if (const auto published = published_.find(key.name)) {
    // Actors of the cluster have no handle here that releases their devices.
    if (options_.is_keeper)
      watcher_.within(kNoDeadline).tell<&HeadNotifications::stop_actors>(key.name);
    else published_.withdraw(published->key);
  }
  for (const MeshProcesses& mesh : meshes_.meshes())
    if (mesh.key.name == key.name)
      for (const DeviceProcess& member : mesh.processes)
        system_.declare_dead(member.process.id, error);
}

void Cluster::report_peer_loss(const ProcessRef& peer, const std::string& how) {
  if (!head_.report_peer_loss(peer, how)) record_loss(peer.id);
}

void Cluster::record_loss(ProcessId process) {
  const auto member = meshes_.find(process);
  if (member && !supervisor_.supervises(member->mesh))
    failures_.record_lost_device(member->mesh, [&] { return meshes_.find(process).has_value(); });
}

void Cluster::peer_timed_out(const ProcessRef& peer, Nanoseconds silence) {
  if (head_.report_peer_loss(peer, describe_silence(silence, 0))) return;
  record_loss(peer.id);
  system_.run_after(kAgentTellsWithin, [ear = ear_, id = peer.id, silence] {
    ear.tell([&](Cluster& cluster) { cluster.report_silent(id, silence); });
  });
}

void Cluster::report_silent(ProcessId process, Nanoseconds silence) {
  const auto member = meshes_.find(process);
  if (!member || failures_.has_failed(member->mesh)) return;
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
  if (supervisor_.supervises(key)) {
    if (failures_.record(failure.incident, [] { return false; }))
      reports_.add(RunEvent::of(failure.incident));
    for (const ProcessId process : failure.dead) {
      system_.confirm_deaths_of(process);
      system_.declare_dead(process, error);
    }
    supervisor_.failed(failure);
    return;
  }
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
      if (!supervisor_.supervises(mesh.key) && !dead.contains(member.process.id))
        system_.fail_calls(member.process.id, error);
  }
}

void Cluster::fail_meshes(const Error& error, const MeshFailure* only) {
  std::vector<ProcessId> processes;
  if (only != nullptr) processes = only->mesh_processes;
  else
    for (const MeshProcesses& mesh : meshes_.meshes())
      if (!supervisor_.supervises(mesh.key) || failures_.is_cluster_lost())
        for (const DeviceProcess& member : mesh.processes) processes.push_back(member.process.id);
  for (const ProcessId process : processes) system_.declare_dead(process, error);
}

}  // namespace weft::actors

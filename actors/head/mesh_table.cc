#include "actors/head/mesh_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace weft::actors {

std::string actor_label(const MeshRequest& request, std::uint32_t rank) {
  if (request.mesh == kSharedProcessName)
    return fmt::format("{}@{}", kSharedProcessName, fmt::join(request.hosts, ""));
  return request.mesh + to_string(request.shape, request.shape.coordinates(rank));
}

std::vector<std::uint32_t> MeshTable::Mesh::ranks_on(const std::string& host) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < places.size(); ++rank)
    if (places[rank].host == host && !detached_ranks.contains(rank)) ranks.push_back(rank);
  return ranks;
}

bool MeshTable::Mesh::has_process(std::uint32_t rank, const DeviceProcess& process) const {
  if (rank < processes.size()) return processes[rank].process.id == process.process.id;
  return std::ranges::find(places, process.place) != places.end();
}

MeshFailure MeshTable::Mesh::failure() const {
  std::set<ProcessId> all, lost;
  for (std::uint32_t rank = 0; rank < processes.size(); ++rank) {
    const ProcessId process = processes[rank].process.id;
    if (process == ProcessId()) continue;
    all.insert(process);
    if (dead.contains(rank)) lost.insert(process);
  }
  return {*incident, {all.begin(), all.end()}, {lost.begin(), lost.end()}};
}

std::string MeshTable::Mesh::state() const {
  if (releasing) return "ending";
  if (renewing) return "recovering";
  if (failed) return "failed";
  return processes.empty() ? "starting" : "running";
}

void MeshTable::read_rows() {
  for (const auto& [name, row] : store_.rows(StateStore::Table::kMeshes)) {
    Mesh mesh;
    static_cast<MeshRow&>(mesh) = decode<MeshRow>(row);
    check_row(mesh);
    const MeshKey key = MeshKey::of_text(name);
    mesh.failed = mesh.incident.has_value() || (mesh.is_shared_process && !mesh.dead.empty());
    // The start has failed with the earlier head, or the mesh has no owner.
    if (mesh.processes.empty() || !owners_.registration(mesh.owner))
      mesh.failed = mesh.releasing = true;
    // A shared process has no part of the host: its actors have.
    for (std::uint32_t rank = 0; rank < mesh.places.size() && !mesh.is_shared_process; ++rank)
      if (!mesh.detached_ranks.contains(rank))
        resources_.assign(key, rank, mesh.places[rank], mesh.request);
    meshes_[key] = std::move(mesh);
  }
}

void MeshTable::save(const MeshKey& key, const Mesh& mesh) {
  store_.put(StateStore::Table::kMeshes, key.text(), encode(static_cast<const MeshRow&>(mesh)));
}

void MeshTable::erase(const MeshKey& key) {
  meshes_.erase(key);
  store_.erase(StateStore::Table::kMeshes, key.text());
}

MeshTable::Mesh* MeshTable::find(const MeshKey& key) {
  return const_cast<Mesh*>(std::as_const(*this).find(key));
}

const MeshTable::Mesh* MeshTable::find(const MeshKey& key) const {
  const auto found = meshes_.find(key);
  return found == meshes_.end() ? nullptr : &found->second;
}

std::optional<ProcessId> MeshTable::owner_of(ProcessId process) const {
  if (process == ProcessId()) return std::nullopt;
  for (const auto& [key, mesh] : meshes_) {
    // Its own row has each shared process.
    if (uses_shared_processes(mesh.request)) continue;
    for (const DeviceProcess& device : mesh.processes)
      if (device.process.id == process) return mesh.owner;
  }
  return std::nullopt;
}

std::map<MeshTable::MemberKey, MeshTable::Member> MeshTable::members() const {
  std::map<MemberKey, Member> members;
  for (const auto& [key, mesh] : meshes_)
    for (const DeviceProcess& device : mesh.processes)
      members[{device.process.id, key.name}] = {mesh.owner, device, mesh.dead.contains(device.rank),
                                                mesh.state()};
  return members;
}

void MeshTable::check_name_is_free(ProcessId owner, const std::string& name) const {
  for (const auto& [key, mesh] : meshes_)
    if (key.name == name && mesh.owner == owner && !mesh.releasing)
      throw_error(ErrorCode::kAlreadyExists,
                  "{} has actors named '{}' already (epoch {}, {}); stop them first, take another "
                  "name, or spawn with .if_exists = kUse",
                  owners_.name_of(owner), name, key.epoch, mesh.state());
}

bool MeshTable::owns_any(ProcessId owner) const {
  return std::ranges::any_of(meshes_, [&](const auto& of) { return of.second.owner == owner; });
}

std::set<std::string> MeshTable::names_of(ProcessId owner) const {
  std::set<std::string> names;
  for (const auto& [key, mesh] : meshes_)
    if (mesh.owner == owner && !mesh.releasing) names.insert(key.name);
  return names;
}

bool MeshTable::uses_host(ProcessId owner, const std::string& host) const {
  return std::ranges::any_of(meshes_, [&](const auto& of) {
    const Mesh& mesh = of.second;
    return mesh.owner == owner && !mesh.releasing && !mesh.ranks_on(host).empty();
  });
}

bool MeshTable::any_releasing() const {
  return std::ranges::any_of(meshes_, [](const auto& of) { return of.second.releasing; });
}

void MeshTable::transfer(ProcessId from, ProcessId to) {
  for (auto& [key, mesh] : meshes_) {
    if (mesh.owner != from || mesh.releasing || mesh.renewing || mesh.processes.empty()) continue;
    mesh.owner = to;
    save(key, mesh);
  }
}

void MeshTable::fail(const MeshKey& key, Mesh& mesh, std::uint32_t rank, const ExitReport& evidence,
                     const std::string& host_failure, bool local_log) {
  ProcessEnd end{evidence, host_failure, local_log};
  if (mesh.is_shared_process) return fail_shared(key, mesh, std::move(end));
  fail_ranks(key, mesh, {rank}, end);
}

std::optional<MeshTable::RankDeaths> MeshTable::mark_dead(const MeshKey& key, Mesh& mesh,
                                                          const std::vector<std::uint32_t>& ranks,
                                                          const ProcessEnd& end) {
  if (ranks.empty()) return std::nullopt;
  RankDeaths deaths;
  const Incident* incident = nullptr;
  for (const std::uint32_t rank : ranks) {
    ProcessFailure failure;
    failure.actor = actor_label(mesh.request, rank);
    failure.mesh = key.name;
    failure.epoch = key.epoch;
    failure.rank = rank;
    failure.host = mesh.places[rank].host;
    failure.device = mesh.places[rank].device;
    failure.pid = rank < mesh.processes.size() ? mesh.processes[rank].pid : 0;
    failure.evidence = end.evidence;
    failure.host_failure = end.host_failure;
    if (failure.evidence.log_file.empty() && rank < mesh.processes.size()) {
      failure.evidence.log_file = mesh.processes[rank].log_file;
      if (end.local_log) failure.evidence.read_log();
    }
    // One copy of the log is enough for thousands of actors of one process.
    if (deaths.count++ == 0) deaths.first = failure;
    else failure.evidence.tail_lines.clear();
    incident = &incidents_.record(std::move(failure)).incident;
    mesh.dead.insert(rank);
  }
  mesh.failed = true;
  mesh.incident = *incident;
  save(key, mesh);
  return deaths;
}

void MeshTable::record_failure(const Mesh& mesh, const RankDeaths& deaths) {
  store_.add_incident(*mesh.incident);
  const std::string run = owners_.name_of(mesh.owner);
  std::string text = deaths.first.summary();
  if (deaths.count > 1)
    text += fmt::format(", with {} more of mesh {}", deaths.count - 1, deaths.first.mesh);
  log_.record(run.starts_with("run ") && !deaths.first.is_whole_mesh()
                  ? fmt::format("{}; weft logs {} '{}'", text, run.substr(4), deaths.first.actor)
                  : text,
              deaths.first.describe());
}

void MeshTable::fail_ranks(const MeshKey& key, Mesh& mesh, const std::vector<std::uint32_t>& ranks,
                           const ProcessEnd& end) {
  const auto deaths = mark_dead(key, mesh, ranks, end);
  if (!deaths) return;
  owners_.notify_meshes_failed(mesh.owner, {mesh.failure()});
  record_failure(mesh, *deaths);
}

void MeshTable::process_died(const DeathReport& report, ProcessId caller, const std::string& host) {
  Mesh* const mesh = find(report.key);
  if (mesh == nullptr || mesh->releasing || report.rank >= mesh->places.size()) return;
  if (mesh->owner != caller && mesh->places[report.rank].host != host) return;
  if (!uses_shared_processes(mesh->request))
    return fail(report.key, *mesh, report.rank, report.evidence, "", false);
  // An owner reports the process of one of its actors.
  if (report.rank >= mesh->processes.size()) return;
  if (const auto shared = find_shared(mesh->processes[report.rank].process.id))
    fail_shared(*shared, *find(*shared), {report.evidence, "", false});
}

void MeshTable::fail_ranks_on(const HostRegistration& host, const ExitReport& evidence,
                              const std::string& note) {
  for (auto& [key, mesh] : meshes_) {
    if (mesh.releasing || uses_shared_processes(mesh.request)) continue;
    for (const std::uint32_t rank : mesh.ranks_on(host.name))
      fail(key, mesh, rank, evidence, note, is_on_this_machine(host));
  }
}

void MeshTable::detach_host(const std::string& host) {
  for (auto& [key, mesh] : meshes_) {
    for (const std::uint32_t rank : mesh.ranks_on(host)) mesh.detached_ranks.insert(rank);
    save(key, mesh);
  }
}

void MeshTable::assign_resources_of(const std::string& host) {
  for (const auto& [key, mesh] : meshes_) {
    if (mesh.is_shared_process) continue;
    for (const std::uint32_t rank : mesh.ranks_on(host))
      resources_.assign(key, rank, mesh.places[rank], mesh.request);
  }
}

std::map<MeshKey, MeshTable::Processes> MeshTable::reconcile(
    const HostRegistration& host, const std::vector<RunningDevice>& reported) {
  std::map<MeshKey, Processes> running;
  for (const RunningDevice& each : reported)
    running[each.key].emplace(each.process.rank, each.process);
  for (auto& [key, mesh] : meshes_)
    if (!uses_shared_processes(mesh.request)) fail_ended_rank(host, key, mesh, running[key]);
  for (auto& [key, mesh] : meshes_)
    if (uses_shared_processes(mesh.request)) fail_ranks_without_process(host, key, mesh);
  std::map<MeshKey, Processes> unknown;
  for (const auto& [key, processes] : running) {
    if (processes.empty()) continue;
    store_.raise_mesh_epoch(key.name, key.epoch);
    const Mesh* const mesh = find(key);
    const bool starts =
        mesh != nullptr && !mesh->releasing && (mesh->processes.empty() || mesh->renewing);
    if (starts) continue;
    // A rank without a place has lost it with its host, which was removed and has joined again.
    for (const auto& [rank, process] : processes)
      if (mesh == nullptr || mesh->detached_ranks.contains(rank) ||
          !mesh->has_process(rank, process))
        unknown[key].emplace(rank, process);
  }
  return unknown;
}

void MeshTable::fail_ended_rank(const HostRegistration& host, const MeshKey& key, Mesh& mesh,
                                const Processes& running) {
  if (mesh.failed || mesh.releasing) return;
  for (const std::uint32_t rank : mesh.ranks_on(host.name)) {
    if (rank >= mesh.processes.size()) return;
    const DeviceProcess& process = mesh.processes[rank];
    const auto found = running.find(rank);
    if (process.process.id == ProcessId() ||
        (found != running.end() && found->second.process.id == process.process.id))
      continue;
    ExitReport evidence;
    evidence.pid = process.pid;
    return fail(key, mesh, rank, evidence, "it ended while its host was disconnected from the head",
                is_on_this_machine(host));
  }
}

void MeshTable::set_device_descriptions(MeshDevices devices, ProcessId caller) {
  // The mesh may have been released meanwhile, or given to the next driver.
  Mesh* const mesh = find(devices.key);
  if (mesh == nullptr || mesh->owner != caller) return;
  mesh->devices = std::move(devices.devices);
  save(devices.key, *mesh);
}

void MeshTable::record_devices(const MeshKey& key, const Mesh& mesh) {
  // The actors in a shared process name it.
  if (mesh.is_shared_process) return;
  std::vector<RunDevice> devices;
  for (const DeviceProcess& process : mesh.processes)
    if (process.process.id != ProcessId())
      devices.push_back({actor_label(mesh.request, process.rank), key, process.rank, process.place,
                         process.process, process.pid, process.log_file});
  owners_.record_devices(mesh.owner, devices);
}

void MeshTable::add_device_users(HostStatus& host) const {
  for (const auto& [key, mesh] : meshes_) {
    if (uses_shared_processes(mesh.request)) continue;
    for (const std::uint32_t rank : mesh.ranks_on(host.offer.name)) {
      if (mesh.places[rank].device == kNoDevice) {
        host.other_processes.push_back(text_of_process(mesh, rank));
        continue;
      }
      // The host has fewer devices now.
      if (mesh.places[rank].device >= host.device_users.size()) continue;
      const std::string pid = rank < mesh.processes.size() && mesh.processes[rank].pid != 0
                                  ? fmt::format(" pid {}", mesh.processes[rank].pid)
                                  : " starting";
      std::string& user = host.device_users[mesh.places[rank].device];
      user = actor_label(mesh.request, rank) + pid;
      if (rank < mesh.devices.size()) user += ", " + mesh.devices[rank];
      if (rank < mesh.processes.size() && mesh.processes[rank].cap.bytes != 0)
        user += ", at most " + mesh.processes[rank].cap.describe();
    }
  }
}

std::vector<MeshStatus> MeshTable::statuses() const {
  std::vector<MeshStatus> list;
  for (const auto& [key, mesh] : meshes_)
    if (!mesh.is_shared_process)
      list.push_back({key, to_string(mesh.request.shape), owners_.name_of(mesh.owner), mesh.state(),
                      mesh.places, uses_shared_processes(mesh.request)});
  return list;
}

}  // namespace weft::actors

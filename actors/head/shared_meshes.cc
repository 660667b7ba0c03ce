// Shared processes as meshes of one, and the meshes whose actors run in them.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/head/mesh_table.h"

namespace weft::actors {
namespace {

/// Returns whether actors of both requests can be in one process.
bool has_same_program(const MeshRequest& one, const MeshRequest& other) {
  return one.binary == other.binary && one.binary_sha256 == other.binary_sha256 &&
         one.environment == other.environment && one.memory_cap == other.memory_cap &&
         one.run == other.run;
}

ProcessId process_of(const MeshTable::Mesh& shared) {
  return shared.processes.empty() ? ProcessId() : shared.processes.front().process.id;
}

}  // namespace

std::optional<MeshKey> MeshTable::find_shared(ProcessId owner, const std::string& host,
                                              const MeshRequest& request) const {
  for (auto it = meshes_.lower_bound({kSharedProcessName, 0});
       it != meshes_.end() && it->first.name == kSharedProcessName; ++it) {
    const Mesh& mesh = it->second;
    if (mesh.is_shared_process && mesh.owner == owner && !mesh.failed && !mesh.releasing &&
        mesh.detached_ranks.empty() && mesh.places.front().host == host &&
        has_same_program(mesh.request, request))
      return it->first;
  }
  return std::nullopt;
}

std::optional<MeshKey> MeshTable::find_shared(ProcessId process) const {
  if (process == ProcessId()) return std::nullopt;
  for (auto it = meshes_.lower_bound({kSharedProcessName, 0});
       it != meshes_.end() && it->first.name == kSharedProcessName; ++it) {
    const Mesh& mesh = it->second;
    if (mesh.is_shared_process && !mesh.failed && process_of(mesh) == process) return it->first;
  }
  return std::nullopt;
}

std::vector<MeshKey> MeshTable::find_failed_shared(ProcessId owner, const std::string& host) const {
  std::vector<MeshKey> found;
  for (auto it = meshes_.lower_bound({kSharedProcessName, 0});
       it != meshes_.end() && it->first.name == kSharedProcessName; ++it) {
    const Mesh& mesh = it->second;
    if (mesh.is_shared_process && mesh.failed && mesh.owner == owner &&
        mesh.places.front().host == host)
      found.push_back(it->first);
  }
  return found;
}

std::size_t MeshTable::count_ranks_in(ProcessId process) const {
  std::size_t count = 0;
  for (const auto& [key, mesh] : meshes_) {
    if (!uses_shared_processes(mesh.request) || mesh.releasing) continue;
    for (const DeviceProcess& rank : mesh.processes)
      if (rank.process.id == process && !mesh.dead.contains(rank.rank)) ++count;
  }
  return count;
}

void MeshTable::fail_shared(const MeshKey& key, Mesh& mesh, ProcessEnd end) {
  mesh.failed = true;
  mesh.dead.insert(0);
  save(key, mesh);
  const ProcessId process = process_of(mesh);
  if (process == ProcessId()) return;  // its start fails
  const DeviceProcess& device = mesh.processes.front();
  if (end.evidence.log_file.empty()) {
    end.evidence.log_file = device.log_file;
    if (end.local_log) end.evidence.read_log();
  }
  log_.record(fmt::format(
      "the shared process of {} on {} (pid {}) {}", owners_.name_of(mesh.owner), device.place.host,
      device.pid,
      end.host_failure.empty() ? end.evidence.summary() : "is lost: " + end.host_failure));
  std::vector<std::pair<const Mesh*, RankDeaths>> failed;
  std::vector<MeshFailure> failures;
  for (auto& [other, dependent] : meshes_) {
    if (dependent.releasing || !uses_shared_processes(dependent.request)) continue;
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < dependent.processes.size(); ++rank)
      if (dependent.processes[rank].process.id == process) ranks.push_back(rank);
    const auto deaths = mark_dead(other, dependent, ranks, end);
    if (!deaths) continue;
    failed.emplace_back(&dependent, *deaths);
    failures.push_back(dependent.failure());
  }
  owners_.notify_meshes_failed(mesh.owner, failures);
  for (const auto& [dependent, deaths] : failed) record_failure(*dependent, deaths);
}

void MeshTable::fail_ranks_without_process(const HostRegistration& host, const MeshKey& key,
                                           Mesh& mesh) {
  if (mesh.releasing || mesh.renewing) return;
  std::vector<std::uint32_t> ranks;
  for (const std::uint32_t rank : mesh.ranks_on(host.name)) {
    if (rank >= mesh.processes.size() || mesh.dead.contains(rank)) continue;
    const ProcessId process = mesh.processes[rank].process.id;
    if (process != ProcessId() && !find_shared(process)) ranks.push_back(rank);
  }
  fail_ranks(key, mesh, ranks,
             {{}, "its process ended while its host was disconnected from the head", false});
}

std::string MeshTable::text_of_process(const Mesh& mesh, std::uint32_t rank) const {
  const std::int64_t pid = rank < mesh.processes.size() ? mesh.processes[rank].pid : 0;
  const std::string process = pid == 0 ? "starting" : fmt::format("pid {}", pid);
  if (!mesh.is_shared_process)
    return fmt::format("{}, {}", actor_label(mesh.request, rank), process);
  const std::size_t actors = pid == 0 ? 0 : count_ranks_in(process_of(mesh));
  return fmt::format("shared process of {}: {} actor{}, {}", owners_.name_of(mesh.owner), actors,
                     actors == 1 ? "" : "s", process);
}

}  // namespace weft::actors

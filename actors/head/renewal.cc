// Renewal of meshes in which processes have died: their next epoch.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "actors/agent/agent.h"
#include "actors/head/head.h"
#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr auto kAdoptWithin = std::chrono::seconds(5);

std::vector<HostDevice> places_of(const std::vector<HostDevice>& places,
                                  const std::vector<std::uint32_t>& ranks) {
  std::vector<HostDevice> part;
  for (const std::uint32_t rank : ranks) part.push_back(places[rank]);
  return part;
}

}  // namespace

std::map<std::string, std::vector<std::uint32_t>> Head::ranks_by_host(
    const Mesh& mesh, const std::set<std::uint32_t>& ranks) const {
  std::map<std::string, std::vector<std::uint32_t>> hosts;
  for (const std::uint32_t rank : ranks) {
    const std::string& name = mesh.places[rank].host;
    const auto host = hosts_.find(name);
    if (host != hosts_.end() && !host->second.away_since) hosts[name].push_back(rank);
  }
  return hosts;
}

/// Creates and saves the next epoch before anybody is told. Ranks that may live belong to it
/// already.
MeshKey Head::begin_epoch(const MeshRenewal& renewal, Mesh& before) {
  MeshKey key{renewal.key.name, store_.next_mesh_epoch(renewal.key.name)};
  Mesh& mesh = meshes_[key];
  mesh.request = renewal.request;
  mesh.owner = before.owner;
  mesh.places = before.places;
  mesh.processes = before.processes;
  mesh.devices = before.devices;
  mesh.renewing = true;
  before.dead.insert(renewal.broken.begin(), renewal.broken.end());
  before.failed = true;
  for (std::uint32_t rank = 0; rank < mesh.places.size(); ++rank) {
    const auto host = hosts_.find(mesh.places[rank].host);
    if (before.dead.contains(rank) || before.detached_ranks.contains(rank) ||
        host == hosts_.end() || host->second.away_since ||
        mesh.processes[rank].process.id == ProcessId())
      mesh.detached_ranks.insert(rank);
  }
  save(key, mesh);
  store_.sync_to_disk();
  return key;
}

/// Moves living processes to the next epoch, each on its host.
task<void> Head::adopt_ranks(MeshKey from, MeshKey to) {
  std::set<std::uint32_t> living;
  for (std::uint32_t rank = 0; rank < meshes_.at(to).places.size(); ++rank)
    if (!meshes_.at(to).detached_ranks.contains(rank)) living.insert(rank);
  const auto hosts = ranks_by_host(meshes_.at(to), living);
  std::vector<std::pair<std::string, Future<std::vector<std::uint32_t>>>> answers;
  for (const auto& [name, ranks] : hosts)
    answers.emplace_back(
        name, context_.system()
                  .named<Agent>(hosts_.at(name).agent, "agent")
                  .within(kAdoptWithin)
                  .call<&Agent::adopt_ranks>(from, to, ranks, store_.term(), meshes_.at(to).owner));
  std::set<std::uint32_t> taken;
  std::vector<Future<void>> undone;
  for (auto& [name, answer] : answers) {
    try {
      const std::vector<std::uint32_t> ranks = co_await answer;
      taken.insert(ranks.begin(), ranks.end());
      continue;
    } catch (const Error&) {
      // The agent may have done it all the same. Its ranks end under either key.
    }
    if (const auto host = hosts_.find(name); host != hosts_.end())
      undone.push_back(stop_ranks_on(host->second.agent, to, true, hosts.at(name)));
  }
  for (Future<void>& answer : undone) {
    try {
      co_await answer;
    } catch (const Error&) {
      // The agent does not answer, so its host is soon marked as away.
    }
  }
  const auto before = meshes_.find(from), now = meshes_.find(to);
  if (before == meshes_.end() || now == meshes_.end()) co_return;
  for (const std::uint32_t rank : living) {
    if (!taken.contains(rank)) {
      now->second.detached_ranks.insert(rank);
      continue;
    }
    allocator_.assign({now->second.places[rank]}, to);
    before->second.detached_ranks.insert(rank);
  }
}

/// Ends processes of dead ranks on hosts that answer, so that their devices become free.
task<void> Head::free_dead(MeshKey from, MeshKey to) {
  const auto before = meshes_.find(from), now = meshes_.find(to);
  if (before == meshes_.end() || now == meshes_.end()) co_return;
  std::set<std::uint32_t> dead;
  for (const std::uint32_t rank : now->second.detached_ranks)
    if (!before->second.detached_ranks.contains(rank)) dead.insert(rank);
  const auto hosts = ranks_by_host(before->second, dead);
  std::vector<std::pair<std::string, Future<void>>> answers;
  for (const auto& [name, ranks] : hosts)
    answers.emplace_back(name, stop_ranks_on(hosts_.at(name).agent, from, true, ranks));
  std::vector<std::string> freed;
  for (auto& [name, answer] : answers) {
    try {
      co_await answer;
      freed.push_back(name);
    } catch (const Error&) {
      // Devices there stay taken until the earlier epoch is released.
    }
  }
  const auto still = meshes_.find(from);
  if (still == meshes_.end()) co_return;
  for (const std::string& name : freed) {
    allocator_.free(places_of(still->second.places, hosts.at(name)));
    still->second.detached_ranks.insert(hosts.at(name).begin(), hosts.at(name).end());
  }
}

/// Starts a process for each rank that has none. Returns why some still have none, or nothing.
task<std::optional<Error>> Head::start_missing(MeshKey key) {
  Mesh& mesh = meshes_.at(key);
  const std::vector<std::uint32_t> missing(mesh.detached_ranks.begin(), mesh.detached_ranks.end());
  for (const std::uint32_t rank : missing) mesh.processes[rank] = {};
  if (missing.empty()) co_return std::nullopt;
  try {
    const std::vector<HostDevice> found =
        mesh.request.places.empty()
            ? allocator_.find_replacements(mesh.request, places_of(mesh.places, missing))
            : places_of(mesh.request.places, missing);
    allocator_.check_free(key.name, found);
    for (std::size_t i = 0; i < missing.size(); ++i) {
      mesh.places[missing[i]] = found[i];
      mesh.detached_ranks.erase(missing[i]);
    }
  } catch (const Error& error) {
    co_return error;
  }
  allocator_.assign(places_of(mesh.places, missing), key);
  std::map<std::string, LaunchRequest> launches = launches_of(key, mesh);
  for (auto& [host, request] : launches)
    std::erase_if(request.devices, [&](const DeviceLaunch& device) {
      return std::ranges::find(missing, device.rank) == missing.end();
    });
  std::erase_if(launches, [](const auto& each) { return each.second.devices.empty(); });
  save(key, mesh);
  store_.flush();
  std::optional<Error> problem;
  std::vector<DeviceProcess> started;
  try {
    started = co_await launch(launches);
  } catch (...) {
    problem = current_error();
  }
  const auto now = meshes_.find(key);
  if (now == meshes_.end()) co_return problem;
  for (const DeviceProcess& process : started) now->second.processes.at(process.rank) = process;
  // Processes that have started beside a failed one are unknown here. Their ranks count as dead,
  // and end before the next attempt.
  if (problem) now->second.dead.insert(missing.begin(), missing.end());
  co_return problem;
}

RenewedMesh Head::renewed(const MeshKey& key, std::string problem) const {
  RenewedMesh result{key, meshes_.at(key).processes, std::move(problem), ErrorCode::kUnavailable};
  const Mesh& mesh = meshes_.at(key);
  for (std::uint32_t rank = 0; rank < result.processes.size(); ++rank) {
    if (mesh.dead.contains(rank) || mesh.detached_ranks.contains(rank)) result.processes[rank] = {};
    result.processes[rank].rank = rank;
    result.processes[rank].place = mesh.places[rank];  // Last or intended device.
  }
  return result;
}

task<RenewedMesh> Head::renew(MeshRenewal renewal) {
  const ProcessId owner = context_.caller().id;
  check_request(renewal.request, owner);
  const MeshKey from = renewal.key;
  const auto before = meshes_.find(from);
  if (before == meshes_.end() || before->second.owner != owner || before->second.releasing ||
      before->second.processes.empty())
    throw_error(ErrorCode::kNotFound,
                "mesh {} (epoch {}) does not exist any more: it was released or has failed to "
                "start; spawn it again",
                from.name, from.epoch);
  if (renewal.request.mesh != from.name ||
      renewal.request.shape.size() != before->second.request.shape.size())
    throw_error(
        ErrorCode::kInvalidArgument,
        "mesh {} cannot be renewed with another name or size; keep both, or spawn a new mesh",
        from.name);
  if (!renewal.request.places.empty() &&
      std::ssize(renewal.request.places) != renewal.request.shape.size())
    throw_error(ErrorCode::kInvalidArgument, "mesh {} of {} ranks names {} places", from.name,
                renewal.request.shape.size(), renewal.request.places.size());
  const std::uint64_t registration = owners_.at(owner).registration_count;
  const MeshKey key = begin_epoch(renewal, before->second);
  co_await adopt_ranks(from, key);
  co_await free_dead(from, key);
  if (const auto old = meshes_.find(from); old != meshes_.end()) begin_release(from, old->second);
  std::optional<Error> problem;
  if (meshes_.contains(key)) problem = co_await start_missing(key);
  const auto now = meshes_.find(key);
  const bool left =
      !owners_.contains(owner) || owners_.at(owner).registration_count != registration;
  if (now == meshes_.end() || now->second.releasing || left) {
    if (now != meshes_.end()) {
      now->second.renewing = false;
      co_await release(key);
    }
    throw_error(ErrorCode::kCancelled, "mesh {} was released while it was renewed", key.name);
  }
  now->second.renewing = false;
  save(key, now->second);
  record_devices(key, now->second);
  store_.flush();
  // Errors that stay: another executable on a host, or a host on which nothing can start.
  if (problem && (problem->code() == ErrorCode::kIncompatible ||
                  problem->code() == ErrorCode::kFailedPrecondition))
    throw Error(*problem);
  RenewedMesh result = renewed(key, problem ? problem->message() : "");
  if (problem) result.code = problem->code();
  const auto missing = std::ranges::count_if(result.processes, [](const DeviceProcess& process) {
    return process.process.id == ProcessId();
  });
  event(fmt::format("mesh {} (epoch {}) was renewed as epoch {}{}", key.name, from.epoch, key.epoch,
                    missing == 0 ? ""
                                 : fmt::format("; {} of its {} devices are missing", missing,
                                               result.processes.size())));
  co_return result;
}

}  // namespace weft::actors

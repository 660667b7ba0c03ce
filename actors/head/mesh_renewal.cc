// Renewal of meshes in which processes have died: their next epoch.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "actors/agent/agent.h"
#include "actors/head/mesh_epochs.h"
#include "actors/system/system.h"

namespace weft::actors {
namespace {

constexpr auto kAdoptWithin = std::chrono::seconds(5);
constexpr auto kAgentLooksWithin = std::chrono::seconds(1);

/// Returns the places of some ranks; none if `places` is empty.
std::vector<HostDevice> places_of(const std::vector<HostDevice>& places,
                                  const std::vector<std::uint32_t>& ranks) {
  std::vector<HostDevice> part;
  if (places.empty()) return part;
  for (const std::uint32_t rank : ranks) part.push_back(places[rank]);
  return part;
}

/// Returns whether a call with the same arguments fails again: another executable on a host, or a
/// host on which nothing can start.
bool is_permanent(const Error& problem) {
  return problem.code() == ErrorCode::kIncompatible ||
         problem.code() == ErrorCode::kFailedPrecondition;
}

}  // namespace

void MeshEpochs::check_renewal(const MeshRenewal& renewal, ProcessId owner) const {
  check_request(renewal.request, owner);
  const MeshKey& from = renewal.key;
  const MeshTable::Mesh* const before = std::as_const(meshes_).find(from);
  if (before == nullptr || before->owner != owner || before->releasing || before->processes.empty())
    throw_error(ErrorCode::kNotFound,
                "mesh {} (epoch {}) does not exist any more: it was released or has failed to "
                "start; spawn it again",
                from.name, from.epoch);
  const MeshRequest& request = renewal.request;
  if (request.mesh != from.name || request.shape.size() != before->request.shape.size())
    throw_error(
        ErrorCode::kInvalidArgument,
        "mesh {} cannot be renewed with another name or size; keep both, or spawn a new mesh",
        from.name);
  if (uses_shared_processes(request) != uses_shared_processes(before->request))
    throw_error(ErrorCode::kInvalidArgument,
                "mesh {} cannot be renewed in {} processes, as its actors run in {} ones; keep its "
                "needs and its kind of process, or spawn a new mesh",
                from.name, uses_shared_processes(request) ? "shared" : "own",
                uses_shared_processes(request) ? "own" : "shared");
  if (!request.places.empty() && std::ssize(request.places) != request.shape.size())
    throw_error(ErrorCode::kInvalidArgument, "mesh {} of {} ranks names {} places", from.name,
                request.shape.size(), request.places.size());
}

MeshKey MeshEpochs::begin_epoch(const MeshRenewal& renewal, MeshTable::Mesh& before) {
  MeshKey key{renewal.key.name, store_.next_mesh_epoch(renewal.key.name)};
  MeshTable::Mesh& mesh = meshes_.add(key);
  mesh.request = renewal.request;
  mesh.owner = before.owner;
  mesh.places = before.places;
  mesh.processes = before.processes;
  mesh.devices = before.devices;
  mesh.renewing = true;
  const bool shares = uses_shared_processes(renewal.request);
  // The owner itself restarts actors in a shared process that lives.
  if (!shares) before.dead.insert(renewal.broken.begin(), renewal.broken.end());
  before.failed = true;
  for (std::uint32_t rank = 0; rank < mesh.places.size(); ++rank) {
    const HostTable::Host* const host = hosts_.find(mesh.places[rank].host);
    if (before.dead.contains(rank) || before.detached_ranks.contains(rank) || host == nullptr ||
        (host->away_since && !shares) || mesh.processes[rank].process.id == ProcessId())
      mesh.detached_ranks.insert(rank);
  }
  meshes_.save(key, mesh);
  store_.sync_to_disk();
  return key;
}

void MeshEpochs::adopt_shared_ranks(const MeshKey& from, const MeshKey& to) {
  MeshTable::Mesh& before = *meshes_.find(from);
  MeshTable::Mesh& next = *meshes_.find(to);
  for (std::uint32_t rank = 0; rank < next.places.size(); ++rank) {
    before.detached_ranks.insert(rank);
    if (!meshes_.find_shared(next.processes[rank].process.id)) next.detached_ranks.insert(rank);
    if (next.detached_ranks.contains(rank)) resources_.free(from, rank);
    else resources_.move(from, to, rank);
  }
}

task<void> MeshEpochs::adopt_ranks(MeshKey from, MeshKey to) {
  std::set<std::uint32_t> living;
  const MeshTable::Mesh& next = *meshes_.find(to);
  for (std::uint32_t rank = 0; rank < next.places.size(); ++rank)
    if (!next.detached_ranks.contains(rank)) living.insert(rank);
  const auto hosts = hosts_.group_by_host(next.places, living);
  std::vector<std::pair<std::string, Future<std::vector<std::uint32_t>>>> answers;
  for (const auto& [name, ranks] : hosts)
    answers.emplace_back(
        name, system_.named<Agent>(hosts_.find(name)->agent, "agent")
                  .within(kAdoptWithin)
                  .call<&Agent::adopt_ranks>(from, to, ranks, store_.term(), next.owner));
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
    if (const HostTable::Host* const host = hosts_.find(name))
      undone.push_back(releases_.stop_ranks_on(host->agent, to, true, hosts.at(name)));
  }
  for (Future<void>& answer : undone) {
    try {
      co_await answer;
    } catch (const Error&) {
      // The agent does not answer, so its host is soon marked as away.
    }
  }
  MeshTable::Mesh* const before = meshes_.find(from);
  MeshTable::Mesh* const now = meshes_.find(to);
  if (before == nullptr || now == nullptr) co_return;
  for (const std::uint32_t rank : living) {
    if (!taken.contains(rank)) {
      now->detached_ranks.insert(rank);
      continue;
    }
    resources_.move(from, to, rank);
    before->detached_ranks.insert(rank);
  }
}

task<void> MeshEpochs::free_dead(MeshKey from, MeshKey to) {
  const MeshTable::Mesh* const before = meshes_.find(from);
  const MeshTable::Mesh* const now = meshes_.find(to);
  if (before == nullptr || now == nullptr) co_return;
  std::set<std::uint32_t> dead;
  for (const std::uint32_t rank : now->detached_ranks)
    if (!before->detached_ranks.contains(rank)) dead.insert(rank);
  const auto hosts = hosts_.group_by_host(before->places, dead);
  std::vector<std::pair<std::string, Future<void>>> answers;
  for (const auto& [name, ranks] : hosts)
    answers.emplace_back(name,
                         releases_.stop_ranks_on(hosts_.find(name)->agent, from, true, ranks));
  std::vector<std::string> freed;
  for (auto& [name, answer] : answers) {
    try {
      co_await answer;
      freed.push_back(name);
    } catch (const Error&) {
      // Devices there stay taken until the earlier epoch is released.
    }
  }
  MeshTable::Mesh* const still = meshes_.find(from);
  if (still == nullptr) co_return;
  for (const std::string& name : freed) {
    for (const std::uint32_t rank : hosts.at(name)) resources_.free(from, rank);
    still->detached_ranks.insert(hosts.at(name).begin(), hosts.at(name).end());
  }
}

task<std::optional<Error>> MeshEpochs::start_missing(MeshKey key) {
  MeshTable::Mesh& mesh = *meshes_.find(key);
  const std::vector<std::uint32_t> missing(mesh.detached_ranks.begin(), mesh.detached_ranks.end());
  for (const std::uint32_t rank : missing) mesh.processes[rank] = {};
  if (missing.empty()) co_return std::nullopt;
  try {
    reservations_.prepare(mesh.request, mesh.owner);
    std::vector<HostDevice> found = places_of(mesh.request.places, missing);
    if (found.empty()) found = resources_.find_replacements(mesh.request, mesh.places, missing);
    else resources_.check_free(mesh.request, found);
    for (std::size_t i = 0; i < missing.size(); ++i) {
      mesh.places[missing[i]] = found[i];
      mesh.detached_ranks.erase(missing[i]);
    }
  } catch (const Error& error) {
    co_return error;
  }
  for (const std::uint32_t rank : missing)
    resources_.assign(key, rank, mesh.places[rank], mesh.request);
  meshes_.save(key, mesh);
  store_.flush();
  auto starting = start_ranks(key, missing);
  const std::optional<Error> problem = co_await starting;
  co_return problem;
}

task<std::optional<Error>> MeshEpochs::start_ranks(MeshKey key,
                                                   std::vector<std::uint32_t> missing) {
  const MeshTable::Mesh& mesh = *meshes_.find(key);
  std::optional<Error> problem;
  if (uses_shared_processes(mesh.request)) {
    auto providing = shared_.provide(key, missing);
    problem = co_await providing;
    co_return problem;
  }
  std::vector<DeviceProcess> started;
  try {
    auto launching = launcher_.launch(key, mesh, missing);
    started = co_await launching;
  } catch (...) {
    problem = current_error();
  }
  MeshTable::Mesh* const now = meshes_.find(key);
  if (now == nullptr) co_return problem;
  for (const DeviceProcess& process : started) now->processes.at(process.rank) = process;
  // Processes that have started beside a failed one are unknown here. Their ranks count as dead,
  // and end before the next attempt.
  if (problem) now->dead.insert(missing.begin(), missing.end());
  co_return problem;
}

RenewedMesh MeshEpochs::renewed(const MeshKey& key, const std::optional<Error>& problem) const {
  const MeshTable::Mesh& mesh = *std::as_const(meshes_).find(key);
  RenewedMesh result{key, mesh.processes, problem ? problem->message() : "",
                     problem ? problem->code() : ErrorCode::kUnavailable};
  for (std::uint32_t rank = 0; rank < result.processes.size(); ++rank) {
    if (mesh.dead.contains(rank) || mesh.detached_ranks.contains(rank)) result.processes[rank] = {};
    result.processes[rank].rank = rank;
    result.processes[rank].place = mesh.places[rank];  // Last or intended device.
  }
  return result;
}

task<RenewedMesh> MeshEpochs::renew(ProcessRef owner, MeshRenewal renewal) {
  check_renewal(renewal, owner.id);
  const MeshKey from = renewal.key;
  const std::uint64_t registration = *owners_.registration(owner.id);
  const MeshKey key = begin_epoch(renewal, *meshes_.find(from));
  if (uses_shared_processes(renewal.request)) {
    adopt_shared_ranks(from, key);
  } else {
    co_await adopt_ranks(from, key);
    co_await free_dead(from, key);
  }
  if (MeshTable::Mesh* const old = meshes_.find(from)) releases_.begin(from, *old);
  std::optional<Error> problem;
  if (meshes_.contains(key)) problem = co_await start_missing(key);
  MeshTable::Mesh* const now = meshes_.find(key);
  if (now != nullptr) now->renewing = false;
  if (now == nullptr || now->releasing || owners_.registration(owner.id) != registration) {
    if (now != nullptr) co_await releases_.release(key, owner);
    throw_error(ErrorCode::kCancelled, "mesh {} was released while it was renewed", key.name);
  }
  meshes_.save(key, *now);
  meshes_.record_devices(key, *now);
  store_.flush();
  if (problem && is_permanent(*problem)) throw Error(*problem);
  RenewedMesh result = renewed(key, problem);
  const auto missing = std::ranges::count_if(result.processes, [](const DeviceProcess& process) {
    return process.process.id == ProcessId();
  });
  log_.record(fmt::format(
      "mesh {} (epoch {}) was renewed as epoch {}{}", key.name, from.epoch, key.epoch,
      missing == 0
          ? ""
          : fmt::format("; {} of its {} devices are missing", missing, result.processes.size())));
  co_return result;
}

task<bool> MeshEpochs::has_dead_process(std::vector<MeshKey> keys) {
  std::vector<Future<bool>> answers;
  std::set<MeshKey> shared_ones;
  for (const MeshKey& key : keys) {
    const MeshTable::Mesh* const mesh = meshes_.find(key);
    if (mesh == nullptr || mesh->failed || mesh->releasing) co_return true;
    std::set<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < mesh->places.size(); ++rank) {
      if (hosts_.find(mesh->places[rank].host) == nullptr) co_return true;
      ranks.insert(rank);
    }
    if (uses_shared_processes(mesh->request)) {
      for (const DeviceProcess& process : mesh->processes)
        if (const auto shared = meshes_.find_shared(process.process.id))
          shared_ones.insert(*shared);
        else co_return true;
      continue;
    }
    for (const auto& [name, of_host] : hosts_.group_by_host(mesh->places, ranks))
      answers.push_back(system_.named<Agent>(hosts_.find(name)->agent, "agent")
                            .within(kAgentLooksWithin)
                            .call<&Agent::are_running>(key, of_host));
  }
  for (const MeshKey& key : shared_ones)
    for (const auto& [name, rank] : hosts_.group_by_host(meshes_.find(key)->places, {0}))
      answers.push_back(system_.named<Agent>(hosts_.find(name)->agent, "agent")
                            .within(kAgentLooksWithin)
                            .call<&Agent::are_running>(key, rank));
  bool lacks = false;
  for (Future<bool>& answer : answers) {
    try {
      const bool all_run = co_await answer;
      lacks = lacks || !all_run;
    } catch (const Error&) {
      // The host is soon marked as away, which is reported.
    }
  }
  co_return lacks;
}

}  // namespace weft::actors

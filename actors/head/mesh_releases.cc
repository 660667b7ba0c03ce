#include "actors/head/mesh_releases.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/agent/agent.h"
#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr auto kStopWithin = std::chrono::seconds(5);
constexpr auto kStopAgainAfter = std::chrono::milliseconds(100);
/// Number added to the epoch of a mesh without an owner until its key is free.
constexpr std::uint64_t kUnownedEpochOffset = 1'000'000'000;

}  // namespace

Future<void> MeshReleases::stop_ranks_on(const ProcessRef& agent, const MeshKey& key, bool failed,
                                         const std::vector<std::uint32_t>& ranks) {
  return context_.system()
      .named<Agent>(agent, "agent")
      .within(kStopWithin)
      .call<&Agent::stop_mesh>(key, failed, store_.term(), ranks);
}

task<void> MeshReleases::release(MeshKey key, ProcessRef caller) {
  MeshTable::Mesh* const mesh = meshes_.find(key);
  if (mesh == nullptr) co_return;
  if (mesh->owner != caller.id)
    throw_error(ErrorCode::kFailedPrecondition,
                "mesh {} (epoch {}) is released by its owner only, and {} is another process",
                key.name, key.epoch, caller.name);
  begin(key, *mesh);
  const Wakeup done = released(key);
  co_await done.wait();
}

void MeshReleases::begin(const MeshKey& key, MeshTable::Mesh& mesh) {
  const auto [release, is_new] = releases_.try_emplace(key);
  if (!is_new) return;
  mesh.releasing = true;
  meshes_.save(key, mesh);
  std::set<std::string> told;
  for (std::uint32_t rank = 0; rank < mesh.places.size(); ++rank) {
    const std::string& name = mesh.places[rank].host;
    const HostTable::Host* const host = hosts_.find(name);
    // Actors in shared processes end with their owner's stop, and their processes live on.
    if (uses_shared_processes(mesh.request) || mesh.detached_ranks.contains(rank) ||
        host == nullptr || !told.insert(name).second)
      continue;
    PendingStop stop{name, host->agent, std::nullopt, key};
    if (!host->away_since) stop.reply = stop_ranks_on(stop.agent, key, mesh.failed);
    release->second.stops.push_back(std::move(stop));
  }
  if (release->second.stops.empty()) {
    without_stops_.push_back(key);
    if (without_stops_.size() == 1) finish_later_(key);
    return;
  }
  wait_to_finish(key);
}

void MeshReleases::wait_to_finish(const MeshKey& key) {
  waiting_.push_back(key);
  if (waiting_.size() == 1) finish_later_(key);
}

Wakeup MeshReleases::released(const MeshKey& key) {
  return releases_.at(key).waiters.emplace_back(context_.make_wakeup());
}

void MeshReleases::resume() {
  // The calls for these may have been refused.
  if (!without_stops_.empty()) finish_later_(without_stops_.front());
  if (!waiting_.empty()) finish_later_(waiting_.front());
  for (auto& [key, mesh] : meshes_.all())
    if (mesh.releasing || is_spent(mesh)) begin(key, mesh);
}

bool MeshReleases::is_spent(const MeshTable::Mesh& mesh) const {
  if (!mesh.is_shared_process) return false;
  if (mesh.failed) return true;
  const HostTable::Host* const host = hosts_.find(mesh.places.front().host);
  return host != nullptr && host->leaving && !mesh.processes.empty() &&
         meshes_.count_ranks_in(mesh.processes.front().process.id) == 0;
}

void MeshReleases::release_all_of(ProcessId owner) {
  for (auto& [key, mesh] : meshes_.all()) {
    if (mesh.owner != owner || mesh.releasing) continue;
    mesh.failed = true;  // No owner is left to wait for an orderly end.
    begin(key, mesh);
  }
}

void MeshReleases::release_leaving_host(const std::string& name, ProcessId owner) {
  const HostTable::Host* const host = hosts_.find(name);
  if (host == nullptr || !host->leaving) return;
  ExitReport orderly;
  orderly.has_parent_report = true;
  orderly.pid = host->offer.pid;
  for (auto& [key, mesh] : meshes_.all()) {
    if (mesh.owner != owner || mesh.releasing || uses_shared_processes(mesh.request)) continue;
    const std::vector<std::uint32_t> ranks = mesh.ranks_on(name);
    for (const std::uint32_t rank : ranks)
      meshes_.fail(key, mesh, rank, orderly,
                   fmt::format("its agent (pid {}) is leaving the cluster: {}", host->offer.pid,
                               *host->leaving),
                   false);
    // Replacements may come late, or never, and the agent waits for the end of its processes.
    if (!ranks.empty())
      context_.system()
          .named<Agent>(host->agent, "agent")
          .tell<&Agent::stop_mesh>(key, true, store_.term(), ranks);
  }
}

void MeshReleases::stop_unknown_processes(const std::string& host, const MeshKey& key,
                                          const MeshTable::Processes& processes) {
  // A mesh of that name and epoch may exist, with processes on other hosts or with an owner.
  MeshKey own = key;
  while (meshes_.contains(own)) own.epoch += kUnownedEpochOffset;
  MeshTable::Mesh& mesh = meshes_.add(own);
  mesh.request.mesh = key.name;
  mesh.failed = mesh.releasing = true;
  PendingStop stop{host, hosts_.find(host)->agent, std::nullopt, key, {}};
  for (const auto& [rank, process] : processes) {
    resources_.assign(own, static_cast<std::uint32_t>(mesh.places.size()), process.place,
                      mesh.request);
    mesh.places.push_back(process.place);
    stop.ranks.push_back(rank);
  }
  mesh.request.shape = MeshShape{{"rank", static_cast<std::int64_t>(mesh.places.size())}};
  stop.reply = stop_ranks_on(stop.agent, key, true, stop.ranks);
  releases_[own].stops.push_back(std::move(stop));
  meshes_.save(own, mesh);
  wait_to_finish(own);
  log_.record(fmt::format(
      "host {} still runs mesh {} (epoch {}), which no driver owns; it is being stopped", host,
      key.name, key.epoch));
}

task<std::string> MeshReleases::wait_for_stop(PendingStop& stop) {
  if (!stop.reply) co_return "it does not answer the head";
  std::string problem;
  try {
    Future<void>& answer = *stop.reply;
    co_await answer;
  } catch (const Error& error) {
    problem = error.message();
  }
  stop.reply.reset();
  co_return problem;
}

task<void> MeshReleases::finish_stop(const MeshKey& key, bool failed, PendingStop& stop,
                                     std::string problem) {
  for (bool told = false; !problem.empty(); told = true) {
    // The host may be slow, or cut off for a while. Its devices stay taken until it confirms; a
    // host that was removed has none.
    if (!told)
      log_.record(
          fmt::format("host {} has not confirmed the end of mesh {} (epoch {}); its devices stay "
                      "reserved until it "
                      "does or is removed: {}",
                      stop.host, key.name, key.epoch, problem));
    co_await context_.sleep(kStopAgainAfter);
    const HostTable::Host* const host = hosts_.find(stop.host);
    if (host == nullptr || host->agent.id != stop.agent.id) co_return;
    if (!host->away_since) stop.reply = stop_ranks_on(host->agent, stop.key, failed, stop.ranks);
    auto waiting = wait_for_stop(stop);
    problem = co_await waiting;
  }
}

void MeshReleases::free_confirmed(const MeshKey& key, MeshTable::Mesh& mesh,
                                  const std::set<std::string>& silent) {
  for (std::uint32_t rank = 0; rank < mesh.places.size(); ++rank)
    if (!silent.contains(mesh.places[rank].host)) mesh.detached_ranks.insert(rank);
  resources_.free(key, silent);
  meshes_.save(key, mesh);
}

void MeshReleases::complete(const MeshKey& key) {
  resources_.free(key);
  const std::vector<Wakeup> waiters = std::move(releases_.at(key).waiters);
  releases_.erase(key);
  meshes_.erase(key);
  store_.flush();
  log_.record(fmt::format("mesh {} (epoch {}) is released", key.name, key.epoch));
  for (const Wakeup& waiter : waiters) waiter.notify();
}

task<void> MeshReleases::finish(MeshKey key) {
  const auto begun = releases_.find(key);
  if (begun == releases_.end()) co_return;
  if (begun->second.stops.empty()) {
    for (const MeshKey& each : std::exchange(without_stops_, {})) complete(each);
    co_return;
  }
  if (std::exchange(begun->second.is_finishing, true)) co_return;
  waiting_.erase(std::ranges::find(waiting_, key));
  if (!waiting_.empty()) finish_later_(waiting_.front());
  MeshTable::Mesh& mesh = meshes_.all().at(key);
  std::vector<std::pair<PendingStop*, std::string>> silent;
  std::set<std::string> hosts;
  for (PendingStop& each : releases_.at(key).stops) {
    auto waiting = wait_for_stop(each);
    std::string problem = co_await waiting;
    if (problem.empty()) continue;
    silent.emplace_back(&each, std::move(problem));
    hosts.insert(each.host);
  }
  // Frees devices on hosts that have confirmed, without waiting for the others.
  if (!silent.empty()) free_confirmed(key, mesh, hosts);
  for (auto& [stop, problem] : silent)
    co_await finish_stop(key, mesh.failed, *stop, std::move(problem));
  complete(key);
}

}  // namespace weft::actors

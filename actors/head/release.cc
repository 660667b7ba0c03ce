// Ends of meshes: devices become free when their hosts confirm the end, or are removed.

#include <fmt/format.h>

#include <set>
#include <utility>

#include "actors/agent/agent.h"
#include "actors/head/head.h"
#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr auto kStopWithin = std::chrono::seconds(5);
constexpr auto kStopAgainAfter = std::chrono::milliseconds(100);

}  // namespace

Future<void> Head::stop_ranks_on(const ProcessRef& agent, const MeshKey& key, bool failed,
                                 const std::vector<std::uint32_t>& ranks) {
  return context_.system()
      .named<Agent>(agent, "agent")
      .within(kStopWithin)
      .call<&Agent::stop_mesh>(key, failed, store_.term(), ranks);
}

void Head::begin_release(const MeshKey& key, Mesh& mesh) {
  if (std::exchange(mesh.release_started, true)) return;
  mesh.releasing = true;
  save(key, mesh);
  std::set<std::string> told;
  for (std::uint32_t rank = 0; rank < mesh.places.size(); ++rank) {
    const std::string& name = mesh.places[rank].host;
    const auto host = hosts_.find(name);
    if (mesh.detached_ranks.contains(rank) || host == hosts_.end() || !told.insert(name).second)
      continue;
    PendingStop stopping{name, host->second.agent, std::nullopt, key};
    if (!host->second.away_since) stopping.reply = stop_ranks_on(stopping.agent, key, mesh.failed);
    mesh.stopping.push_back(std::move(stopping));
  }
  // Runs as a call of its own, as the call that asks for it may be cancelled.
  context_.system().ref<Head>(context_.self()).tell<&Head::finish_release>(key);
}

task<std::string> Head::wait_for_stop(PendingStop& stopping) {
  if (!stopping.reply) co_return "it does not answer the head";
  std::string problem;
  try {
    Future<void>& answer = *stopping.reply;
    co_await answer;
  } catch (const Error& error) {
    problem = error.message();
  }
  stopping.reply.reset();
  co_return problem;
}

task<void> Head::finish_stop(const MeshKey& key, bool failed, PendingStop& stopping,
                             std::string problem) {
  for (bool told = false; !problem.empty(); told = true) {
    // The host may be slow, or cut off for a while. Its devices stay taken until it confirms; a
    // host that was removed has none.
    if (!told)
      event(
          fmt::format("host {} has not confirmed the end of mesh {} (epoch {}); its devices stay "
                      "reserved until it "
                      "does or is removed: {}",
                      stopping.host, key.name, key.epoch, problem));
    co_await context_.sleep(kStopAgainAfter);
    const auto host = hosts_.find(stopping.host);
    if (host == hosts_.end() || host->second.agent.id != stopping.agent.id) co_return;
    if (!host->second.away_since)
      stopping.reply = stop_ranks_on(host->second.agent, stopping.key, failed, stopping.ranks);
    auto waiting = wait_for_stop(stopping);
    problem = co_await waiting;
  }
}

void Head::free_confirmed(const MeshKey& key, Mesh& mesh, const std::set<std::string>& silent) {
  for (std::uint32_t rank = 0; rank < mesh.places.size(); ++rank)
    if (!silent.contains(mesh.places[rank].host)) mesh.detached_ranks.insert(rank);
  allocator_.free(key, silent);
  save(key, mesh);
}

task<void> Head::finish_release(MeshKey key) {
  check_called_locally();
  Mesh& mesh = meshes_.at(key);
  std::vector<std::pair<PendingStop*, std::string>> silent;
  std::set<std::string> hosts;
  for (PendingStop& each : mesh.stopping) {
    auto waiting = wait_for_stop(each);
    std::string problem = co_await waiting;
    if (problem.empty()) continue;
    silent.emplace_back(&each, std::move(problem));
    hosts.insert(each.host);
  }
  // Frees devices on hosts that have confirmed, without waiting for the others.
  if (!silent.empty()) free_confirmed(key, mesh, hosts);
  for (auto& [stopping, problem] : silent)
    co_await finish_stop(key, mesh.failed, *stopping, std::move(problem));
  allocator_.free(key);
  const std::vector<Wakeup> waiters = std::move(mesh.waiters);
  meshes_.erase(key);
  store_.erase(StateStore::Table::kMeshes, key.text());
  store_.flush();
  event(fmt::format("mesh {} (epoch {}) is released", key.name, key.epoch));
  for (const Wakeup& waiter : waiters) waiter.notify();
}

task<void> Head::release(MeshKey key) {
  const auto found = meshes_.find(key);
  if (found == meshes_.end()) co_return;
  if (found->second.owner != context_.caller().id)
    throw_error(ErrorCode::kFailedPrecondition,
                "mesh {} (epoch {}) is released by its owner only, and {} is another process",
                key.name, key.epoch, context_.caller().name);
  begin_release(key, found->second);
  const Wakeup released = context_.make_wakeup();
  found->second.waiters.push_back(released);
  co_await released.wait();
}

}  // namespace weft::actors

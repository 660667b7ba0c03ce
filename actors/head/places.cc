// Answers to owners that place their meshes: free devices, their changes, and processes that do not
// run.

#include <utility>

#include "actors/agent/agent.h"
#include "actors/head/head.h"
#include "actors/system/system.h"

namespace weft::actors {
namespace {

constexpr auto kAgentLooksWithin = std::chrono::seconds(1);
/// Factor of the term in a version, so that versions of different heads differ.
constexpr std::uint64_t kTerm = std::uint64_t{1} << 32;

}  // namespace

std::uint64_t Head::places_version() const { return store_.term() * kTerm + allocator_.changes(); }

DeviceSnapshot Head::device_snapshot() const { return {places_version(), allocator_.hosts()}; }

void Head::notify_change_waiters() {
  if (std::exchange(notified_change_, allocator_.changes()) == allocator_.changes()) return;
  for (const auto& [number, waiter] : std::exchange(change_waiters_, {})) waiter.notify();
}

task<std::uint64_t> Head::wait_for_change(std::uint64_t seen, std::int64_t within_ns) {
  if (places_version() != seen) co_return places_version();
  const Wakeup changed = context_.make_wakeup();
  const std::uint64_t waiter = next_waiter_++;
  change_waiters_.emplace(waiter, changed);
  co_await changed.wait_for(Nanoseconds(within_ns));
  change_waiters_.erase(waiter);
  co_return places_version();
}

task<bool> Head::has_dead_process(std::vector<MeshKey> keys) {
  std::vector<Future<bool>> answers;
  for (const MeshKey& key : keys) {
    const auto mesh = meshes_.find(key);
    if (mesh == meshes_.end() || mesh->second.failed || mesh->second.releasing) co_return true;
    std::set<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < mesh->second.places.size(); ++rank) {
      if (!hosts_.contains(mesh->second.places[rank].host)) co_return true;
      ranks.insert(rank);
    }
    for (const auto& [name, of_host] : ranks_by_host(mesh->second, ranks))
      answers.push_back(context_.system()
                            .named<Agent>(hosts_.at(name).agent, "agent")
                            .within(kAgentLooksWithin)
                            .call<&Agent::are_running>(key, of_host));
  }
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

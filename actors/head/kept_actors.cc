#include "actors/head/kept_actors.h"

#include <chrono>
#include <string>

#include "actors/head/head_notifications.h"
#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr auto kKeeperStartsWithin = std::chrono::seconds(10);
constexpr auto kLookForKeeperEvery = std::chrono::milliseconds(10);
/// Time in which the keeper ends an attempt to spawn actors, and forgets them.
constexpr Nanoseconds kKeeperStopsWithin = std::chrono::seconds(40);

/// Returns "hits" for "hits" and "cluster/hits".
std::string name_in_row(const std::string& name) {
  const std::string scope = std::string(kKeeperName) + "/";
  return name.starts_with(scope) ? name.substr(scope.size()) : name;
}

}  // namespace

void KeptActorsTable::resume() {
  if (start_keeper_ && !store_.rows(StateStore::Table::kKeptActors).empty()) start_keeper_();
}

task<ProcessRef> KeptActorsTable::keeper() {
  if (start_keeper_) start_keeper_();
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + kKeeperStartsWithin;
  while (true) {
    if (const auto keeper = owners_.keeper()) co_return *keeper;
    if (clock.now() > give_up)
      throw_error(ErrorCode::kUnavailable,
                  "the head's keeper of actors did not start; see the log of the head");
    co_await context_.sleep(kLookForKeeperEvery);
  }
}

void KeptActorsTable::check_keeper(ProcessId caller) const {
  if (!owners_.is_keeper(caller))
    throw_error(ErrorCode::kFailedPrecondition,
                "only the head's keeper records the actors of the cluster; spawn them with "
                ".lifetime = Lifetime::kCluster");
}

void KeptActorsTable::keep(ProcessId caller, const SpawnDescription& actors) {
  check_keeper(caller);
  store_.put(StateStore::Table::kKeptActors, actors.name(), encode(actors));
  store_.sync_to_disk();
}

void KeptActorsTable::forget(ProcessId caller, const std::string& name) {
  if (!owners_.is_keeper(caller)) return;
  store_.erase(StateStore::Table::kKeptActors, name);
  store_.flush();
}

std::vector<SpawnDescription> KeptActorsTable::all(ProcessId caller) const {
  check_keeper(caller);
  std::vector<SpawnDescription> list;
  for (const auto& [name, row] : store_.rows(StateStore::Table::kKeptActors)) {
    try {
      list.push_back(decode<SpawnDescription>(row));
    } catch (...) {
      context_.system().options().log.warning(
          "{} of the cluster is not spawned again, as its record cannot be read: {}", name,
          current_error().message());
    }
  }
  return list;
}

bool KeptActorsTable::contains(const std::string& name) const {
  return store_.rows(StateStore::Table::kKeptActors).contains(name_in_row(name));
}

task<void> KeptActorsTable::stop(std::string name) {
  const auto keeper = owners_.keeper();
  if (!keeper)
    throw_error(ErrorCode::kUnavailable,
                "the head's keeper of actors does not answer at the moment; try again later");
  auto stopping = context_.system()
                      .named<HeadNotifications>(*keeper, "watcher")
                      .within(kKeeperStopsWithin)
                      .call<&HeadNotifications::stop_actors>(name_in_row(name));
  co_await stopping;
}

}  // namespace weft::actors

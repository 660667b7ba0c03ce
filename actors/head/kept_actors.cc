#include "actors/head/kept_actors.h"

#include <chrono>

#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr auto kKeeperStartsWithin = std::chrono::seconds(10);
constexpr auto kLookForKeeperEvery = std::chrono::milliseconds(10);

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

void KeptActorsTable::keep(ProcessId caller, const KeptActors& actors) {
  check_keeper(caller);
  store_.put(StateStore::Table::kKeptActors, actors.name, encode(actors));
  store_.sync_to_disk();
}

void KeptActorsTable::forget(ProcessId caller, const std::string& name) {
  if (!owners_.is_keeper(caller)) return;
  store_.erase(StateStore::Table::kKeptActors, name);
  store_.flush();
}

std::vector<KeptActors> KeptActorsTable::all(ProcessId caller) const {
  check_keeper(caller);
  std::vector<KeptActors> list;
  for (const auto& [name, row] : store_.rows(StateStore::Table::kKeptActors))
    list.push_back(decode<KeptActors>(row));
  return list;
}

}  // namespace weft::actors

#include "actors/head/shutdown.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "actors/agent/agent.h"
#include "actors/head/head_notifications.h"
#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::actors {
namespace {

/// Time for owners to reconnect to a head that is told to stop soon after its start: they must hear
/// why.
constexpr auto kOwnerReconnectGrace = std::chrono::seconds(2);
/// Longest wait in a second call of stop(). The head's process usually exits before.
constexpr auto kStopEndsWithin = Shutdown::kRunsEndWithin + std::chrono::seconds(10);
constexpr auto kOwnerPollInterval = std::chrono::milliseconds(20);
constexpr auto kMemberAnswersWithin = std::chrono::seconds(1);

/// Waits for all answers. Ignores errors: a process that does not answer has ended, as it was asked
/// to.
task<void> settle(std::vector<Future<void>> answers) {
  for (Future<void>& answer : answers) {
    try {
      co_await answer;
    } catch (const Error&) {
    }
  }
}

}  // namespace

task<void> Shutdown::end_runs() {
  std::vector<std::pair<ProcessId, Future<std::string>>> asked;
  for (const auto& [id, owner] : owners_.all())
    if (!owner.away_since)
      asked.emplace_back(id, context_.system()
                                 .named<HeadNotifications>(owner.process, "watcher")
                                 .within(kMemberAnswersWithin)
                                 .call<&HeadNotifications::cancel>(false));
  std::vector<ProcessId> ending;
  for (auto& [id, answer] : asked) {
    try {
      co_await answer;
      ending.push_back(id);
    } catch (const Error&) {
      continue;  // Owners without `weft cancel` are not awaited.
    }
  }
  const TimePoint give_up = clock_.now() + kRunsEndWithin;
  const auto runs = [this](ProcessId id) { return owners_.answers(id); };
  while (std::ranges::any_of(ending, runs) && clock_.now() < give_up)
    co_await context_.sleep(kOwnerPollInterval);
}

task<void> Shutdown::await_owners() {
  const TimePoint give_up = clock_.now() + kOwnerReconnectGrace;
  while (owners_.any_away() && clock_.now() < give_up) co_await context_.sleep(kOwnerPollInterval);
}

task<void> Shutdown::end_members(std::string reason) {
  // Owners come first: they must hear why before the last errors of their devices reach them.
  std::vector<Future<void>> told;
  for (const auto& [id, owner] : owners_.all())
    told.push_back(context_.system()
                       .named<HeadNotifications>(owner.process, "watcher")
                       .within(kMemberAnswersWithin)
                       .call<&HeadNotifications::cluster_stops>(reason));
  co_await settle(std::move(told));
  told.clear();
  for (const auto& [name, host] : hosts_.all())
    told.push_back(context_.system()
                       .named<Agent>(host.agent, "agent")
                       .within(kMemberAnswersWithin)
                       .call<&Agent::shut_down>(reason, store_.term()));
  co_await settle(std::move(told));
}

task<void> Shutdown::stop(std::string reason, bool now) {
  if (std::exchange(begun_, true) && !now) {
    co_await context_.sleep(kStopEndsWithin);
    co_return;
  }
  log_.record("the cluster stops: " + reason);
  if (!now) {
    // Runs that are about to reconnect write their checkpoints, too.
    auto owners_return = await_owners();
    co_await owners_return;
    auto runs_end = end_runs();
    co_await runs_end;
  }
  if (std::exchange(ending_, true)) {
    co_await context_.sleep(kStopEndsWithin);
    co_return;
  }
  hosts_.expect_ends();
  auto owners_return = await_owners();
  co_await owners_return;
  auto members_end = end_members(reason);
  co_await members_end;
  owners_.clear("was stopped with the cluster: " + reason);
  store_.erase_member_rows();
  store_.sync_to_disk();
  on_stop_(reason);
}

}  // namespace weft::actors

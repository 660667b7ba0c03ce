// What a head tells of its cluster to those who look: runs, events; and who ends a run from outside.
#include <fmt/format.h>

#include <algorithm>

#include "actors/head/cluster_watcher.h"
#include "actors/head/head.h"
#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr auto kDriverAnswersWithin = std::chrono::seconds(2);
constexpr std::uint32_t kMaxEvents = 1000;  // in an answer

}  // namespace

std::optional<RunProgress> Head::progress_of(ProcessId owner) const {
  const auto found = owners_.find(owner);
  return found == owners_.end() ? std::nullopt : found->second.progress;
}

void Head::close_lost_runs(const std::string& how) {
  std::vector<ProcessId> lost;
  for (const auto& [number, record] : runs_.all())
    if (!record.ended() && !owners_.contains(record.process.id)) lost.push_back(record.process.id);
  for (const ProcessId process : lost) runs_.gone(process, how, std::nullopt);
}

void Head::describe_run(RunDescription description) {
  runs_.describe(context_.caller().id, std::move(description));
}

void Head::run_ended(const RunEnd& end) {
  const ProcessId caller = context_.caller().id;
  const auto owner = owners_.find(caller);
  if (owner == owners_.end()) return;
  runs_.end(caller, end, owner->second.progress);
  const OwnerOffer& offer = owner->second.offer;
  event(fmt::format("{} (pid {}) ends: {}{}", offer.name, offer.pid, to_string(end.state),
                    end.why.empty() ? "" : ": " + end.why));
}

std::vector<RunRecord> Head::runs() {
  std::vector<RunRecord> list;
  for (const auto& [number, record] : runs_.all()) {
    list.push_back(record);
    const auto owner = owners_.find(record.process.id);
    if (record.ended() || owner == owners_.end()) continue;
    RunRecord& live = list.back();
    if (owner->second.away_since) live.state = RunState::kAway;
    live.progress = owner->second.progress;
    if (live.progress) live.told_seconds = in_seconds(clock_.now() - owner->second.told);
  }
  return list;
}

ClusterEvents Head::events(const EventsRequest& request) {
  const std::uint64_t count = store_.event_count();
  const std::uint32_t limit = std::min(request.limit, kMaxEvents);
  // A head with another state may count from the beginning.
  const std::uint64_t after = request.after.value_or(count - std::min<std::uint64_t>(limit, count));
  return store_.events_after(after > count ? 0 : after, limit);
}

task<std::string> Head::cancel_run(std::uint64_t number, bool now) {
  const RunRecord& run = runs_.get(number);
  const std::string who =
      fmt::format("run '{}' (pid {}{})", run.name, run.pid,
                  run.description.machine.empty() ? "" : " on " + run.description.machine);
  if (run.ended())
    throw_error(ErrorCode::kFailedPrecondition, "{} has ended: {}", who, to_string(run.state));
  if (now) runs_.cancelled_at_once(number);
  auto answer = context_.system()
                    .named<ClusterWatcher>(run.process, "watcher")
                    .within(kDriverAnswersWithin)
                    .call<&ClusterWatcher::cancel>(now);
  event(fmt::format("{} is to end{}: weft cancel", who, now ? " at once" : ""));
  const std::int64_t pid = run.pid;
  std::optional<Error> failure;
  try {
    const std::string doing = co_await answer;
    co_return doing;
  } catch (const Error& error) {
    failure = error;
  }
  if (failure->code() == ErrorCode::kFailedPrecondition) throw *failure;
  throw_error(ErrorCode::kUnavailable,
              "{} does not answer the head: it is stopped, overloaded or cut off ({}); where it "
              "runs, kill -INT {} asks it too, and kill -KILL {} ends it",
              who, failure->message(), pid, pid);
}

}  // namespace weft::actors

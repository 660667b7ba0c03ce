#include "actors/head/run_control.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <optional>

#include "actors/agent/agent.h"
#include "actors/head/head_notifications.h"
#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr auto kDriverAnswersWithin = std::chrono::seconds(2);
/// Limit that leaves the agent time to hash the app's binary.
constexpr auto kAgentStartsWithin = std::chrono::seconds(30);

}  // namespace

RunRecord RunControl::run(std::uint64_t number) const {
  RunRecord record = history_.get(number);
  const OwnerTable::Owner* const owner = owners_.find(record.process.id);
  if (record.ended() || owner == nullptr) return record;
  if (owner->away_since) record.state = RunState::kUnreachable;
  record.progress = owner->progress;
  if (record.progress) record.progress_age_seconds = in_seconds(clock_.now() - owner->progress_at);
  return record;
}

std::vector<RunRecord> RunControl::runs() const {
  std::vector<RunRecord> list;
  for (const auto& [number, record] : history_.all()) {
    list.push_back(run(number));
    if (record.ended()) list.back().devices.clear();
  }
  return list;
}

task<std::uint64_t> RunControl::submit(RunSubmission submission) {
  const HostTable::Host* const host = hosts_.find(submission.host);
  if (host == nullptr || host->away_since) {
    std::vector<std::string> names;
    for (const auto& [name, each] : hosts_.all())
      if (!each.away_since) names.push_back(name);
    throw_error(ErrorCode::kUnavailable,
                "run '{}' was not started: host {} {}; hosts that answer: {}", submission.name,
                submission.host,
                host == nullptr ? "has not joined this cluster" : "does not answer",
                names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  auto answer = system_.named<Agent>(host->agent, "agent")
                    .within(kAgentStartsWithin)
                    .call<&Agent::start_run>(submission, store_.term());
  const DetachedRun started = co_await answer;
  const std::uint64_t number = history_.start(submission.name, started, submission.out);
  log_.record(fmt::format("run {} was started in the background on host {} (pid {})",
                          submission.name, started.host, started.pid));
  co_return number;
}

void RunControl::detached_ended(ProcessId agent, const DetachedRunExit& end) {
  const HostTable::Host* const host = hosts_.of_agent(agent);
  if (host == nullptr || host->offer.name != end.host) return;
  history_.detached_ended(end);
  store_.sync_to_disk();
}

task<std::string> RunControl::cancel(std::uint64_t number, bool now) {
  const RunRecord run = history_.get(number);
  const std::string who =
      fmt::format("run '{}' (pid {}{})", run.name, run.pid,
                  run.description.machine.empty() ? "" : " on " + run.description.machine);
  if (run.ended())
    throw_error(ErrorCode::kFailedPrecondition, "{} has ended: {}", who, to_string(run.state));
  if (now) history_.mark_killed(number);
  log_.record(fmt::format("{} was asked to end{} by weft cancel", who, now ? " at once" : ""));
  std::string problem = "its driver has not connected yet";
  if (run.state != RunState::kStarting) {
    auto answer = system_.named<HeadNotifications>(run.process, "watcher")
                      .within(kDriverAnswersWithin)
                      .call<&HeadNotifications::cancel>(now);
    std::optional<Error> failure;
    try {
      const std::string doing = co_await answer;
      co_return doing;
    } catch (const Error& error) {
      failure = error;
    }
    if (failure->code() == ErrorCode::kFailedPrecondition) throw *failure;
    problem = failure->message();
  }
  // The agent that has started the run can signal it.
  if (const HostTable::Host* const host = hosts_.find(run.description.agent)) {
    auto signalled = system_.named<Agent>(host->agent, "agent")
                         .within(kDriverAnswersWithin)
                         .call<&Agent::signal_run>(run.description.launch, now, store_.term());
    try {
      co_await signalled;
      co_return fmt::format("host {} sent {} to the run ({})", run.description.agent,
                            now ? "SIGKILL" : "SIGINT", problem);
    } catch (const Error& error) {
      problem += "; " + error.message();
    }
  }
  throw_error(
      ErrorCode::kUnavailable,
      "{} does not answer the head ({}): it may be suspended, overloaded or disconnected; on its "
      "machine, kill -INT {} asks it to end and kill -KILL {} ends it at once",
      who, problem, run.pid, run.pid);
}

}  // namespace weft::actors

// Introspection: runs, events and logs for observers; and the end of a run on request.
#include <fmt/format.h>

#include <fmt/ranges.h>

#include <algorithm>

#include "actors/agent/agent.h"
#include "actors/agent/log_reader.h"
#include "actors/head/head.h"
#include "actors/head/head_notifications.h"
#include "actors/system/system.h"
#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr auto kDriverAnswersWithin = std::chrono::seconds(2);
/// Limit that leaves the agent time to hash the app's binary.
constexpr auto kAgentStartsWithin = std::chrono::seconds(30);
constexpr auto kAgentReadsWithin = std::chrono::seconds(5);
constexpr std::uint32_t kMaxEvents = 1000;  // Limit per reply.

}  // namespace

std::optional<RunProgress> Head::progress_of(ProcessId owner) const {
  const auto found = owners_.find(owner);
  return found == owners_.end() ? std::nullopt : found->second.progress;
}

void Head::close_unreported_runs(const std::string& how) {
  std::vector<ProcessId> lost;
  for (const auto& [number, record] : runs_.all())
    if (!record.ended() && record.state != RunState::kStarting &&
        !owners_.contains(record.process.id))
      lost.push_back(record.process.id);
  for (const ProcessId process : lost) runs_.close_unreported(process, how, std::nullopt);
}

void Head::record_devices(const MeshKey& key, const Mesh& mesh) {
  std::vector<RunDevice> devices;
  for (const DeviceProcess& process : mesh.processes)
    if (process.process.id != ProcessId())
      devices.push_back({actor_label(mesh.request, process.rank), key, process.rank, process.place,
                         process.process, process.pid, process.log_file});
  runs_.add_devices(mesh.owner, devices);
}

void Head::describe_run(RunDescription description) {
  runs_.describe(context_.caller().id, std::move(description));
}

void Head::run_ended(const RunResult& end) {
  const ProcessId caller = context_.caller().id;
  const auto owner = owners_.find(caller);
  if (owner == owners_.end()) return;
  runs_.end(caller, end, owner->second.progress);
  const OwnerRegistration& offer = owner->second.offer;
  event(fmt::format("{} (driver pid {}) ends: {}{}", offer.name, offer.pid, to_string(end.state),
                    end.reason.empty() ? "" : ": " + end.reason));
}

RunRecord Head::run(std::uint64_t number) {
  RunRecord record = runs_.get(number);
  const auto owner = owners_.find(record.process.id);
  if (record.ended() || owner == owners_.end()) return record;
  if (owner->second.away_since) record.state = RunState::kUnreachable;
  record.progress = owner->second.progress;
  if (record.progress)
    record.progress_age_seconds = in_seconds(clock_.now() - owner->second.progress_at);
  return record;
}

std::vector<RunRecord> Head::runs() {
  std::vector<RunRecord> list;
  for (const auto& [number, record] : runs_.all()) {
    list.push_back(run(number));
    if (record.ended()) list.back().devices.clear();
  }
  return list;
}

std::vector<Member> Head::members() {
  std::vector<Member> list;
  for (const auto& [name, host] : hosts_) {
    list.push_back({name, host.agent, host.offer.pid, host.offer.machine, ""});
    if (host.away_since)
      list.back().unreachable_note = fmt::format("does not answer the head since {:.0f} s",
                                                 in_seconds(clock_.now() - *host.away_since));
    else if (host.suspect) list.back().unreachable_note = "has been silent for some seconds";
  }
  return list;
}

task<std::vector<LogPiece>> Head::read_logs(std::vector<LogRequest> requests,
                                            std::uint32_t max_bytes) {
  std::vector<LogPiece> pieces(requests.size());
  struct OfHost {
    std::vector<std::size_t> indices;
    std::vector<LogPosition> positions;
    std::optional<Future<std::vector<LogPiece>>> answer;
  };
  std::map<std::string, OfHost> asked;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    asked[requests[i].host].indices.push_back(i);
    asked[requests[i].host].positions.push_back(requests[i].position);
  }
  for (auto& [name, of] : asked) {
    const auto host = hosts_.find(name);
    if (host == hosts_.end()) continue;
    of.answer = context_.system()
                    .named<LogReader>(host->second.agent, "logs")
                    .within(kAgentReadsWithin)
                    .call<&LogReader::read>(of.positions, max_bytes);
  }
  for (auto& [name, of] : asked) {
    std::string problem =
        fmt::format("host {} is not in this cluster; it has left or never joined", name);
    if (of.answer) {
      try {
        Future<std::vector<LogPiece>>& answer = *of.answer;
        std::vector<LogPiece> found = co_await answer;
        for (std::size_t i = 0; i < of.indices.size() && i < found.size(); ++i)
          pieces[of.indices[i]] = std::move(found[i]);
        continue;
      } catch (const Error& error) {
        problem = error.message();
      }
    }
    for (std::size_t i = 0; i < of.indices.size(); ++i)
      pieces[of.indices[i]] = {"", of.positions[i].offset, false, problem};
  }
  co_return pieces;
}

task<std::uint64_t> Head::submit(RunSubmission submission) {
  const auto host = hosts_.find(submission.host);
  if (host == hosts_.end() || host->second.away_since) {
    std::vector<std::string> names;
    for (const auto& [name, each] : hosts_)
      if (!each.away_since) names.push_back(name);
    throw_error(ErrorCode::kUnavailable,
                "run '{}' was not started: host {} {}; hosts that answer: {}", submission.name,
                submission.host,
                host == hosts_.end() ? "has not joined this cluster" : "does not answer",
                names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  auto answer = context_.system()
                    .named<Agent>(host->second.agent, "agent")
                    .within(kAgentStartsWithin)
                    .call<&Agent::start_run>(submission, store_.term());
  const DetachedRun started = co_await answer;
  const std::uint64_t number = runs_.start(submission.name, started, submission.out);
  event(fmt::format("run {} was started in the background on host {} (pid {})", submission.name,
                    started.host, started.pid));
  co_return number;
}

void Head::detached_ended(const DetachedRunExit& end) {
  const Host* const host = host_of(context_.caller().id);
  if (host == nullptr || host->offer.name != end.host) return;
  runs_.detached_ended(end);
  store_.sync_to_disk();
}

ClusterEvents Head::events(const EventsRequest& request) {
  const std::uint64_t count = store_.event_count();
  const std::uint32_t limit = std::min(request.limit, kMaxEvents);
  // A number from a head with another state may exceed the count: reads from the beginning then.
  const std::uint64_t after = request.after.value_or(count - std::min<std::uint64_t>(limit, count));
  return store_.events_after(after > count ? 0 : after, limit);
}

task<std::string> Head::cancel_run(std::uint64_t number, bool now) {
  const RunRecord run = runs_.get(number);
  const std::string who =
      fmt::format("run '{}' (pid {}{})", run.name, run.pid,
                  run.description.machine.empty() ? "" : " on " + run.description.machine);
  if (run.ended())
    throw_error(ErrorCode::kFailedPrecondition, "{} has ended: {}", who, to_string(run.state));
  if (now) runs_.mark_killed(number);
  event(fmt::format("{} was asked to end{} by weft cancel", who, now ? " at once" : ""));
  std::string problem = "its driver has not connected yet";
  if (run.state != RunState::kStarting) {
    auto answer = context_.system()
                      .named<HeadNotifications>(run.process, "watcher")
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
  const std::string& host = run.description.agent;
  if (const auto found = hosts_.find(host); found != hosts_.end()) {
    auto signalled = context_.system()
                         .named<Agent>(found->second.agent, "agent")
                         .within(kDriverAnswersWithin)
                         .call<&Agent::signal_run>(run.description.launch, now, store_.term());
    try {
      co_await signalled;
      co_return fmt::format("host {} sent {} to the run ({})", host, now ? "SIGKILL" : "SIGINT",
                            problem);
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

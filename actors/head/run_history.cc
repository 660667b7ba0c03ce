#include "actors/head/run_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/error.h"

namespace weft::actors {
namespace {

constexpr std::string_view kOwnerPrefix = "run ";
/// Exit status of an interrupted `weft run`, as in a shell.
constexpr int kInterruptedStatus = 130;
constexpr std::int64_t kSameDeathMs = 30'000;

std::int64_t unix_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::string row_name(std::uint64_t number) { return fmt::format("{:012}", number); }

}  // namespace

std::string_view to_string(RunState state) {
  switch (state) {
    case RunState::kStarting: return "starting";
    case RunState::kRunning: return "running";
    case RunState::kUnreachable: return "away";
    case RunState::kDone: return "done";
    case RunState::kFailed: return "failed";
    case RunState::kInterrupted: return "interrupted";
    case RunState::kLost: return "lost";
  }
  return "unknown";
}

RunHistory::RunHistory(StateStore& store) : store_(store) {
  for (const auto& [name, row] : store_.rows(StateStore::Table::kRuns)) {
    try {
      auto record = decode<RunRecord>(row);
      records_[record.number] = std::move(record);
    } catch (const Error&) {
      store_.erase(StateStore::Table::kRuns, name);
    }
  }
}

void RunHistory::save(const RunRecord& record) {
  store_.put(StateStore::Table::kRuns, row_name(record.number), encode(record));
}

RunRecord* RunHistory::find(ProcessId process) {
  if (process == ProcessId()) return nullptr;
  for (auto& [number, record] : records_)
    if (record.process.id == process && !record.ended()) return &record;
  return nullptr;
}

RunRecord* RunHistory::find(const std::string& agent, std::uint64_t launch) {
  for (auto& [number, record] : records_)
    if (record.detached() && record.description.agent == agent &&
        record.description.launch == launch)
      return &record;
  return nullptr;
}

const RunRecord* RunHistory::running(ProcessId process) const {
  return const_cast<RunHistory*>(this)->find(process);
}

bool RunHistory::has_reported_end(ProcessId process) const {
  return std::ranges::any_of(records_, [&](const auto& of) {
    const RunRecord& record = of.second;
    return record.process.id == process && record.ended() && record.state != RunState::kLost;
  });
}

const RunRecord& RunHistory::get(std::uint64_t number) const {
  const auto found = records_.find(number);
  if (found == records_.end())
    throw_error(ErrorCode::kNotFound,
                "the head has no record of run {}; weft runs lists the runs that it has", number);
  return found->second;
}

void RunHistory::begin(const ProcessRef& process, const std::string& owner, std::int64_t pid) {
  if (find(process.id) != nullptr) return;
  RunRecord record;
  record.number = records_.empty() ? 1 : records_.rbegin()->first + 1;
  record.name = owner.starts_with(kOwnerPrefix) ? owner.substr(kOwnerPrefix.size()) : owner;
  record.process = process;
  record.pid = pid;
  record.began_unix_ms = unix_ms();
  save(record);
  records_[record.number] = std::move(record);
}

RunRecord* RunHistory::previous_record(const RunRecord& record, const RunDescription& description) {
  if (!description.agent.empty()) {
    RunRecord* const started = find(description.agent, description.launch);
    return started == &record ? nullptr : started;
  }
  if (description.restart_count == 0 || description.out.empty()) return nullptr;
  RunRecord* newest = nullptr;
  for (auto& [number, each] : records_)
    if (number != record.number && each.description.machine == description.machine &&
        each.description.out == description.out)
      newest = &each;
  return newest;
}

void RunHistory::describe(ProcessId process, RunDescription description) {
  RunRecord* record = find(process);
  if (record == nullptr) return;
  RunRecord* const before = previous_record(*record, description);
  if (before != nullptr &&
      (before->state == RunState::kStarting || description.restart_count > 0)) {
    const std::uint64_t other = record->number;
    before->name = record->name;
    before->process = record->process;
    before->pid = record->pid;
    before->state = record->state;
    before->ended_unix_ms = 0;
    before->reason.clear();
    store_.erase(StateStore::Table::kRuns, row_name(other));
    records_.erase(other);
    if (cancelled_at_once_.erase(other) > 0) cancelled_at_once_.insert(before->number);
    record = before;
  } else if (before != nullptr) {
    // The earlier record is of another run: its agent was restarted, and counts from the beginning.
    before->description.agent.clear();
    save(*before);
  }
  record->description = std::move(description);
  save(*record);
}

std::uint64_t RunHistory::start(const std::string& name, const DetachedRun& run,
                                const std::string& out) {
  if (RunRecord* const known = find(run.host, run.launch)) {
    if (!known->ended()) return known->number;  // The driver has connected first.
    // An agent that was restarted may count from the beginning.
    known->description.agent.clear();
    save(*known);
  }
  RunRecord record;
  record.number = records_.empty() ? 1 : records_.rbegin()->first + 1;
  record.name = name;
  record.pid = run.pid;
  record.state = RunState::kStarting;
  record.description = {"", out, run.host, run.launch};
  record.began_unix_ms = unix_ms();
  save(record);
  const std::uint64_t number = record.number;
  records_[number] = std::move(record);
  return number;
}

void RunHistory::detached_ended(const DetachedRunExit& end) {
  RunRecord* const record = find(end.host, end.launch);
  if (record == nullptr) return;
  if (record->ended() && record->state != RunState::kLost) return;
  const ExitReport& evidence = end.evidence;
  if (evidence.exited_cleanly()) return close(*record, RunState::kDone, "", std::nullopt);
  if (cancelled_at_once_.contains(record->number)) return close_cancelled(*record, std::nullopt);
  if (!evidence.was_signalled() && evidence.status == kInterruptedStatus)
    return close(*record, RunState::kInterrupted, "", std::nullopt);
  close(*record, RunState::kFailed,
        fmt::format("its weft run process (pid {}) on host {} {}{}", evidence.pid, end.host,
                    evidence.was_signalled() ? "died: " + evidence.cause()
                                             : "ended with " + evidence.cause(),
                    evidence.log_note()),
        std::nullopt);
}

void RunHistory::close_runs_of_host(const std::string& host, const std::string& how) {
  for (auto& [number, record] : records_) {
    // The driver's connection may have ended a moment earlier, without a report.
    const bool just_lost =
        record.state == RunState::kLost && unix_ms() - record.ended_unix_ms < kSameDeathMs;
    if (record.description.agent != host || (record.ended() && !just_lost)) continue;
    if (cancelled_at_once_.contains(number)) close_cancelled(record, std::nullopt);
    else
      close(record, RunState::kLost,
            fmt::format("the run ended because host {}, which had started it, was removed from the "
                        "cluster: {}",
                        host, how),
            std::nullopt);
  }
}

void RunHistory::add_devices(ProcessId process, const std::vector<RunDevice>& devices) {
  RunRecord* const record = find(process);
  if (record == nullptr) return;
  auto& all = record->devices;
  all.insert(all.end(), devices.begin(), devices.end());
  if (all.size() > kMaxDevicesPerRun) all.erase(all.begin(), all.end() - kMaxDevicesPerRun);
  save(*record);
}

void RunHistory::end(ProcessId process, const RunResult& end,
                     const std::optional<RunProgress>& progress) {
  RunRecord* record = find(process);
  // An agent may deliver the program's report after the record was closed as lost.
  for (auto& [number, each] : records_)
    if (record == nullptr && each.process.id == process && each.state == RunState::kLost)
      record = &each;
  if (record == nullptr) return;
  close(*record, end.state, end.reason, progress);
}

void RunHistory::close_unreported(ProcessId process, const std::string& how,
                                  const std::optional<RunProgress>& progress) {
  RunRecord* const record = find(process);
  if (record == nullptr) return;
  if (cancelled_at_once_.contains(record->number)) return close_cancelled(*record, progress);
  close(*record, RunState::kLost, "its driver " + how, progress);
}

void RunHistory::mark_killed(std::uint64_t number) { cancelled_at_once_.insert(number); }

void RunHistory::close_cancelled(RunRecord& record, const std::optional<RunProgress>& progress) {
  close(record, RunState::kInterrupted, "weft cancel --now", progress);
}

void RunHistory::close(RunRecord& record, RunState state, const std::string& why,
                       const std::optional<RunProgress>& progress) {
  record.state = state;
  record.reason = why;
  record.ended_unix_ms = unix_ms();
  if (progress) record.progress = progress;
  save(record);
  cancelled_at_once_.erase(record.number);
  drop_oldest(record);
}

void RunHistory::drop_oldest(const RunRecord& kept) {
  std::vector<const RunRecord*> ended;
  for (const auto& [number, record] : records_)
    if (record.ended() && &record != &kept) ended.push_back(&record);
  std::ranges::stable_sort(ended, {}, &RunRecord::ended_unix_ms);
  for (std::size_t i = 0; ended.size() - i >= kMaxEndedRuns; ++i) {
    const std::uint64_t number = ended[i]->number;
    store_.erase(StateStore::Table::kRuns, row_name(number));
    records_.erase(number);
  }
}

}  // namespace weft::actors

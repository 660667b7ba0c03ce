#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/agent/detached_run.h"
#include "actors/head/run_messages.h"
#include "actors/head/state_store.h"

namespace weft::actors {

/// Records of the runs of a cluster: those that run, and the last kMaxEndedRuns that have ended.
/// Saved in the head's state with its next event. Owned by the head; one thread at a time.
class RunHistory final {
 public:
  static constexpr std::size_t kMaxEndedRuns = 100;
  /// Limit of recorded devices of a run; the newest are kept. A run that restarts often has had
  /// many.
  static constexpr std::size_t kMaxDevicesPerRun = 4096;

  /// Reads the records of the head before this one. Drops those that another version of Weft has
  /// written.
  explicit RunHistory(StateStore& store);

  /// Begins a record. The owner "run quickstart" is the run "quickstart". Does nothing if this
  /// process has a record.
  void begin(const ProcessRef& process, const std::string& owner, std::int64_t pid);
  /// Records a description. Continues the earlier record of the same run, if it is a detached one
  /// that has been started, or its driver was started again.
  void describe(ProcessId process, RunDescription description);
  /// Records a run that an agent has started. Returns its number.
  std::uint64_t start(const std::string& name, const DetachedRun& run, const std::string& out);
  /// Closes the record of a detached run whose `weft run` has ended, unless its driver has reported
  /// an end.
  void detached_ended(const DetachedRunExit& end);
  /// Closes the detached runs of a host that was removed.
  void close_runs_of_host(const std::string& host, const std::string& how);
  void add_devices(ProcessId process, const std::vector<RunDevice>& devices);
  /// Closes the record as the program itself reports its end. Nothing later replaces that.
  void end(ProcessId process, const RunResult& end, const std::optional<RunProgress>& progress);
  /// Closes the record of a process that ended without a report. `how`: "did not reconnect within
  /// 60 s".
  void close_unreported(ProcessId process, const std::string& how,
                        const std::optional<RunProgress>& progress);
  /// Notes that a run was asked to end at once: if it ends without a report, it counts as
  /// interrupted.
  void mark_killed(std::uint64_t number);

  /// Returns all records by number, oldest first.
  const std::map<std::uint64_t, RunRecord>& all() const { return records_; }
  /// Returns a record. Throws Error(kNotFound).
  const RunRecord& get(std::uint64_t number) const;
  /// Returns the record of the process that has not ended; null if there is none.
  const RunRecord* running(ProcessId process) const;
  /// Returns whether this process has reported how its run ends.
  bool has_reported_end(ProcessId process) const;

 private:
  RunRecord* find(ProcessId process);
  RunRecord* find(const std::string& agent, std::uint64_t launch);
  /// Returns an earlier record of the same run, from before its driver connected or was started
  /// again.
  RunRecord* previous_record(const RunRecord& record, const RunDescription& description);
  void close(RunRecord& record, RunState state, const std::string& why,
             const std::optional<RunProgress>& progress);
  /// Closes the record of a run that was cancelled at once, and has not reported its end.
  void close_cancelled(RunRecord& record, const std::optional<RunProgress>& progress);
  /// Drops the runs that ended first until kMaxEndedRuns are left. Keeps `kept`, which has just
  /// ended.
  void drop_oldest(const RunRecord& kept);
  void save(const RunRecord& record);

  StateStore& store_;
  std::map<std::uint64_t, RunRecord> records_;
  std::set<std::uint64_t> cancelled_at_once_;  // Numbers of runs that have not ended yet.
};

/// Returns "starting", "running", "away", "done", "failed", "interrupted" or "lost".
std::string_view to_string(RunState state);

}  // namespace weft::actors

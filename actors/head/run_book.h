#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/agent/detached_run.h"
#include "actors/head/run_messages.h"
#include "actors/head/state_store.h"

namespace weft::actors {

/// The runs of a cluster, those that run and the last ones that have ended: kept in the head's
/// state, with its next event. Owned by the head; one thread at a time.
class RunBook final {
 public:
  static constexpr std::size_t kEnded = 100;
  /// Of one run: the newest. A run that is restarted often has had many.
  static constexpr std::size_t kDevices = 4096;

  /// Reads what the head before this one has left. A record of another Weft is dropped: it is
  /// history.
  explicit RunBook(StateStore& store);

  /// "run quickstart" is the run "quickstart". Nothing if this process has one.
  void begin(const ProcessRef& process, const std::string& owner, std::int64_t pid);
  /// Of a detached run that has been started, or of a driver that was started again: what is known
  /// of that run goes on.
  void describe(ProcessId process, RunDescription description);
  /// An agent has started one. Its number.
  std::uint64_t start(const std::string& name, const DetachedRun& run, const std::string& out);
  /// The `weft run` of a detached one has ended: what its driver has said itself counts more.
  void detached_ended(const DetachedEnd& end);
  /// The host of detached ones is gone, and they with it.
  void host_gone(const std::string& host, const std::string& how);
  void add_devices(ProcessId process, const std::vector<RunDevice>& devices);
  /// What the program says itself counts, whatever comes later.
  void end(ProcessId process, const RunEnd& end, const std::optional<RunProgress>& progress);
  /// Its process is gone: "has not come back within 60 s".
  void gone(ProcessId process, const std::string& how, const std::optional<RunProgress>& progress);
  /// Somebody has asked it to end at once: then it ends without a word.
  void cancelled_at_once(std::uint64_t number);

  /// By number, oldest first.
  const std::map<std::uint64_t, RunRecord>& all() const { return records_; }
  /// Throws Error(kNotFound).
  const RunRecord& get(std::uint64_t number) const;
  /// That has not ended; null if there is none.
  const RunRecord* running(ProcessId process) const;
  /// Returns whether this process has said how its run ends.
  bool has_told_end(ProcessId process) const;

 private:
  RunRecord* find(ProcessId process);
  RunRecord* find(const std::string& agent, std::uint64_t launch);
  /// The record of the same run, from before its driver came, or before it was started again.
  RunRecord* before_of(const RunRecord& record, const RunDescription& description);
  void close(RunRecord& record, RunState state, const std::string& why,
             const std::optional<RunProgress>& progress);
  void save(const RunRecord& record);

  StateStore& store_;
  std::map<std::uint64_t, RunRecord> records_;
  std::vector<std::uint64_t> cancelled_at_once_;
};

/// "running", "away", "done", "failed", "interrupted", "lost".
std::string_view to_string(RunState state);

}  // namespace weft::actors

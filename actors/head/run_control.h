#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/call/task.h"
#include "actors/head/event_log.h"
#include "actors/head/host_table.h"
#include "actors/head/owner_table.h"
#include "actors/head/run_history.h"
#include "actors/head/run_messages.h"
#include "actors/head/state_store.h"
#include "core/base/clock.h"

namespace weft::actors {

/// Runs as an operator sees them: starts detached ones, shows them, and asks them to end. Owned by
/// the head; its thread only.
class RunControl final {
 public:
  RunControl(System& system, const Clock& clock, const HostTable& hosts, const OwnerTable& owners,
             RunHistory& history, StateStore& store, EventLog& log)
      : system_(system),
        clock_(clock),
        hosts_(hosts),
        owners_(owners),
        history_(history),
        store_(store),
        log_(log) {}
  RunControl(const RunControl&) = delete;
  RunControl& operator=(const RunControl&) = delete;

  /// Asks the agent of submission.host to start a run. Returns the number of its record. Throws
  /// what Agent::start_run() throws, and kUnavailable if that host does not answer or has not
  /// joined.
  task<std::uint64_t> submit(RunSubmission submission);
  /// Records that a detached run of an agent has ended. Ignored for runs of other hosts.
  void detached_ended(ProcessId agent, const DetachedRunExit& end);
  /// Asks the driver of a run to end: after its step, with a checkpoint, or at once if `now`.
  /// Returns what it says that it does. Throws kNotFound, kFailedPrecondition if the run has ended,
  /// and kUnavailable if neither its driver nor the agent that started it answers.
  task<std::string> cancel(std::uint64_t number, bool now);
  /// Returns a run. Throws kNotFound.
  RunRecord run(std::uint64_t number) const;
  /// Returns the running runs and the last ones that have ended, by number. Only running ones have
  /// devices.
  std::vector<RunRecord> runs() const;

 private:
  System& system_;
  const Clock& clock_;
  const HostTable& hosts_;
  const OwnerTable& owners_;
  RunHistory& history_;
  StateStore& store_;
  EventLog& log_;
};

}  // namespace weft::actors

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>

#include "actors/agent/agent_config.h"
#include "actors/agent/detached_run.h"
#include "actors/agent/joined_head.h"
#include "actors/supervision/process_launcher.h"
#include "actors/system/context.h"

namespace weft::actors {

/// Processes of detached runs on a host: each is a `weft run` that the agent has started.
///
/// Owned by the agent; its thread only. Ends all processes when destroyed.
class RunProcesses final {
 public:
  /// `config`, `events`, `head` and `launcher` must outlive this object. `on_change`: called when
  /// the number of runs changes.
  RunProcesses(Context& context, const AgentConfig& config, const AgentEvents& events,
               const JoinedHead& head, ProcessLauncher& launcher, std::function<void()> on_change);
  ~RunProcesses();
  RunProcesses(const RunProcesses&) = delete;
  RunProcesses& operator=(const RunProcesses&) = delete;

  /// Starts a run. Throws kFailedPrecondition if this agent cannot start runs, and what
  /// check_binary() and ProcessLauncher::launch() throw.
  DetachedRun start(const RunSubmission& submission);
  /// Sends SIGINT to a run, or SIGKILL if `now`. Throws kNotFound.
  void signal(std::uint64_t launch, bool now) const;
  /// Sends SIGINT to all runs.
  void interrupt_all() const;
  /// Reports recent ends again, to a head that may have been away at the first report.
  void repeat_ends() const;
  std::size_t size() const { return runs_.size(); }

 private:
  void ended(std::uint64_t launch, const ExitReport& evidence);

  Context& context_;
  const AgentConfig& config_;
  const AgentEvents& events_;
  const JoinedHead& head_;
  ProcessLauncher& launcher_;
  const std::function<void()> on_change_;
  std::uint64_t last_launch_ = 0;
  std::map<std::uint64_t, pid_t> runs_;  // Running ones, by launch number.
  std::deque<DetachedRunExit> ends_;     // Latest ends.
};

}  // namespace weft::actors

#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "actors/cluster/run_events.h"
#include "actors/launch/supervisor_event_queue.h"
#include "actors/supervision/process_launcher.h"
#include "actors/supervision/signal_handler.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Reaction of `weft run` to signals, at any time of the run. The first SIGINT, SIGTERM or SIGHUP
/// is an event for the supervisor, and prints what happens. The second kills all processes. SIGUSR1
/// is an event, too. Construct it before any thread starts. Any thread.
class RunInterruption final {
 public:
  /// Borrows `events` and `queue`.
  RunInterruption(std::string run_name, const RunEvents& events, SupervisorEventQueue& queue,
                  EndRequestFilter::Parent parent);
  RunInterruption(const RunInterruption&) = delete;
  RunInterruption& operator=(const RunInterruption&) = delete;

  /// Scope in which signals reach the processes of a launcher. Ends before the launcher.
  class Processes final {
   public:
    Processes(RunInterruption& interruption, ProcessLauncher& launcher)
        : interruption_(interruption) {
      interruption_.set_launcher(&launcher);
    }
    ~Processes() { interruption_.set_launcher(nullptr); }
    Processes(const Processes&) = delete;
    Processes& operator=(const Processes&) = delete;

   private:
    RunInterruption& interruption_;
  };

  bool requested() const { return count_ > 0; }
  /// Returns true if all processes end at once.
  bool at_once() const { return count_ >= 2; }
  /// Sets what the first signal leads to, for its message.
  void set_phase(const char* text) { phase_ = text; }

  /// Time to end after the second signal; remaining processes then get the parent-death signal.
  static constexpr auto kEndWithin = std::chrono::milliseconds(1500);

 private:
  void received(const ReceivedSignal& signal);
  void interrupted(const ReceivedSignal& signal);
  void set_launcher(ProcessLauncher* launcher);

  const std::string run_name_;
  const RunEvents& events_;
  SupervisorEventQueue& queue_;
  std::atomic<int> count_ = 0;
  EndRequestFilter requests_;  // signals' thread only
  std::atomic<const char*> phase_ = "stopping the start of the cluster";
  Mutex mutex_;
  Condition changed_;
  ProcessLauncher* launcher_ = nullptr;  // guarded by mutex_
  const SignalHandler signals_;          // declared last: calls received()
};

}  // namespace weft::actors

#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "actors/supervision/signal_handler.h"
#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Reaction to signals of a process that another process of Weft has started: a head, an agent, a
/// device.
///
///   SIGINT, SIGTERM, SIGHUP
///     from its parent      ends in order, at once
///     from elsewhere       continues, because a signal to all processes of a run (by Slurm,
///                          systemd) asks for the run's last checkpoint. A parent that was also
///                          signalled ends the process. If the parent does not say so within
///                          kParentTimeout, the process dies of the signal: a death
///   kParentShutsDown     from its parent: waits for the parent, without limit
///   others                 ignored
///
/// Construct it first in main(), like SignalHandler.
class ChildSignals final {
 public:
  /// Called on threads of this object.
  struct SignalCallbacks {
    std::function<void(const std::string& reason)> on_end;  ///< The parent ends this process.
    /// Called when this process will end in order, so that its own children wait. May be empty.
    std::function<void()> on_wait = {};
    /// Receives log lines. May be empty.
    std::function<void(const std::string& text)> on_note = {};
  };
  static constexpr Nanoseconds kParentTimeout = std::chrono::seconds(2);

  explicit ChildSignals(SignalCallbacks events);
  ~ChildSignals();
  ChildSignals(const ChildSignals&) = delete;
  ChildSignals& operator=(const ChildSignals&) = delete;

 private:
  void received(const ReceivedSignal& signal);
  void wait_for_parent(const ReceivedSignal& signal);
  void note(const std::string& text) const;

  const SignalCallbacks events_;
  Mutex mutex_;
  Condition changed_;
  bool parent_ends_ = false;   // guarded by mutex_
  bool ending_ = false;        // guarded by mutex_
  Thread waiting_;             // started by the signals' thread; joined by the destructor
  const SignalHandler watch_;  // declared last: calls received()
};

}  // namespace weft::actors

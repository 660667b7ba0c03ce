#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "core/base/clock.h"

namespace weft::actors {

/// Time after which a stopped or silent process counts as dead.
inline constexpr Nanoseconds kDeathTimeout = std::chrono::seconds(10);

/// Thread that a signal or a tracer has stopped.
struct StoppedThread {
  pid_t thread = 0;
  /// T: stopped by a signal (SIGSTOP, SIGTSTP, SIGTTOU...); t: stopped by a tracer (a debugger).
  char state = 'T';
  bool is_main_thread = true;  ///< True for the main thread, which a signal stops with all others.
  std::string name;
  pid_t tracer = 0;  ///< Pid of its tracer, or 0.
};

/// Returns the first stopped thread of a process (state T or t of /proc/PID/task/*/stat), or
/// nothing if all can run. Any thread.
std::optional<StoppedThread> find_stopped_thread(pid_t pid);

/// Describes the silence of a process, with its state if it runs on this machine under `pid` (0:
/// elsewhere): "has not responded for 10.3 s: it is stopped (state T)", "has not responded for
/// 10.3 s: stopped, overloaded or disconnected".
std::string describe_silence(Nanoseconds silence, pid_t pid);

/// Timer of how long a process has been stopped: at every look, which come about twice a second.
/// Pure: times are arguments. One thread at a time.
///
/// A long gap between two looks restarts the count: the observer itself was held up, and has not
/// seen what happened.
class StoppedTimer final {
 public:
  static constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(500);

  bool due(TimePoint now) const { return !last_look_ || now - *last_look_ >= kLookEvery; }
  /// Returns "has been stopped (state T) for 10.2 s" once, when kDeathTimeout is reached.
  std::optional<std::string> update(const std::optional<StoppedThread>& stopped, TimePoint now);

 private:
  std::optional<TimePoint> last_look_, since_;
  bool told_ = false;
};

}  // namespace weft::actors

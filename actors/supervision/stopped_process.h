#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "core/base/clock.h"

namespace weft::actors {

/// For so long a process may be stopped, or silent, before it counts as dead.
inline constexpr Nanoseconds kSilenceLimit = std::chrono::seconds(10);

/// A thread that does not run because somebody stopped it.
struct StoppedThread {
  pid_t thread = 0;
  /// T: by a signal (SIGSTOP, SIGTSTP, SIGTTOU...); t: by a tracer (a debugger)
  char state = 'T';
  bool whole = true;  ///< It is the first one, which a signal stops with all others.
  std::string name;
  pid_t tracer = 0;  ///< Who traces it, if anybody.
};

/// The first thread of a process that is stopped (state T or t of /proc/PID/task/*/stat); nothing
/// when all can run. Any thread.
std::optional<StoppedThread> find_stopped_thread(pid_t pid);

/// Of a process that nobody hears from, with what can be seen of it, if it runs on this machine
/// under `pid` (0: elsewhere): "has been silent for 10.3 s: it is stopped (state T)", "has been
/// silent for 10.3 s: stopped, overloaded or cut off".
std::string describe_silence(Nanoseconds silence, pid_t pid);

/// For how long a process has been stopped, seen by looks about twice a second: stopped at every
/// look. Pure but for the times that are passed in. One thread at a time.
///
/// An observer that was itself held up (a gap between two looks) begins anew: what it has not seen,
/// it does not count.
class StoppedTimer final {
 public:
  static constexpr Nanoseconds kLookEvery = std::chrono::milliseconds(500);

  bool due(TimePoint now) const { return !last_look_ || now - *last_look_ >= kLookEvery; }
  /// "has been stopped (state T) for 10.2 s; ..." once, when the limit is reached.
  std::optional<std::string> look(const std::optional<StoppedThread>& stopped, TimePoint now);

 private:
  std::optional<TimePoint> last_look_, since_;
  bool told_ = false;
};

}  // namespace weft::actors

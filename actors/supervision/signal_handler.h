#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Signal by which a parent tells its children that it ends in order. They wait for the parent
/// then, whatever other signals they get. They ignore this one from other senders.
inline constexpr int kParentShutsDown = SIGUSR2;
/// Signal that asks a driver, or `weft run`, for a checkpoint. Other processes ignore it.
inline constexpr int kCheckpointSignal = SIGUSR1;

/// Signal that a process has received.
struct ReceivedSignal {
  int number = 0;
  pid_t sender = 0;  ///< 0: the kernel, as for Ctrl-C, or another PID namespace.
  /// True if the parent of this process sent it. A sender of another PID namespace counts as the
  /// parent.
  bool from_parent = false;
  /// Returns whether it is SIGINT, SIGTERM or SIGHUP.
  bool asks_to_end() const;
  /// Returns "SIGTERM from pid 4121 (bash)", "SIGINT".
  std::string describe() const;
};

/// Watch that passes SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 to a function on a thread of its
/// own.
///
/// Make it first in main(): it blocks these signals in the calling thread, and threads that start
/// later inherit that.
class SignalHandler final {
 public:
  explicit SignalHandler(std::function<void(const ReceivedSignal&)> on_signal);
  ~SignalHandler();
  SignalHandler(const SignalHandler&) = delete;
  SignalHandler& operator=(const SignalHandler&) = delete;

 private:
  int stop_fd_ = -1;
  int signal_fd_ = -1;
  Thread thread_;
  std::uint64_t simulated_ = 0;
};

/// Classifier of requests to end: tells the first one from its echoes and from a second request.
/// Slurm and systemd signal all processes at once, so one process gets the same request several
/// times: directly, and from its parent. One thread at a time.
class EndRequestFilter final {
 public:
  enum class Kind {
    kFirst,   ///< Finish the current work, save, end.
    kEcho,    ///< Ignore it: the same request again.
    kSecond,  ///< End at once.
  };
  /// Behaviour of the parent process.
  enum class Parent {
    kKills,  ///< Sends SIGKILL for an end at once; its other signals are echoes.
    kNone,   ///< No parent, or one whose signals count as anyone's.
  };
  explicit EndRequestFilter(Parent parent) : parent_(parent) {}
  /// Time after the first request within which further signals are echoes.
  static constexpr Nanoseconds kEchoWindow = std::chrono::seconds(1);
  Kind add(const ReceivedSignal& signal, TimePoint now);

 private:
  const Parent parent_;
  std::optional<TimePoint> first_;
};

/// Ends this process by a signal, with the default action. Its parent sees a death.
[[noreturn]] void kill_self(int signal);

}  // namespace weft::actors

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

/// The signal by which a parent tells its children that it ends in order: they wait for it,
/// whatever other signals they get. Children ignore it from anybody else.
inline constexpr int kParentEndsInOrder = SIGUSR2;
/// Asks a driver, or `weft run`, for a checkpoint. Other processes ignore it.
inline constexpr int kWriteCheckpoint = SIGUSR1;

/// A signal that a process has received.
struct ReceivedSignal {
  int number = 0;
  pid_t sender = 0;  ///< 0: the kernel, as for Ctrl-C, or a process of another PID namespace.
  /// Sent by the parent of this process. A sender of another PID namespace counts as the parent.
  bool from_parent = false;
  /// SIGINT, SIGTERM or SIGHUP.
  bool asks_to_end() const;
  /// "SIGTERM from pid 4121 (bash)", "SIGINT".
  std::string describe() const;
};

/// Turns SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 into calls of a function on a thread of its
/// own.
///
/// Make it first in main(): it blocks these signals in the calling thread, and threads that start
/// later inherit that.
class SignalWatch final {
 public:
  explicit SignalWatch(std::function<void(const ReceivedSignal&)> on_signal);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  int stop_fd_ = -1;
  int signal_fd_ = -1;
  Thread thread_;
  std::uint64_t simulated_ = 0;
};

/// Tells the first request to end from its echoes and from a second wish. When everything is asked
/// to end at once (Slurm, systemd), a process gets the same request several times: its own signal,
/// and its parent's. One thread at a time.
class EndRequests final {
 public:
  enum class Kind {
    kFirst,   ///< Finish what is under way, save, end.
    kEcho,    ///< The same request again: nothing to do.
    kSecond,  ///< End at once.
  };
  /// `parent_kills`: a parent that wants the end at once sends SIGKILL; its other signals never
  /// count as a second wish.
  explicit EndRequests(bool parent_kills) : parent_kills_(parent_kills) {}
  /// Signals that come less than this after the first are echoes.
  static constexpr Nanoseconds kEchoesFor = std::chrono::seconds(1);
  Kind add(const ReceivedSignal& signal, TimePoint now);

 private:
  const bool parent_kills_;
  std::optional<TimePoint> first_;
};

/// Ends this process by a signal, as one that does not watch it ends. Its parent sees a death.
[[noreturn]] void die_of(int signal);

}  // namespace weft::actors

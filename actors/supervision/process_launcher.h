#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "actors/supervision/exit_report.h"
#include "core/base/clock.h"
#include "core/base/secret.h"

namespace weft::actors {

/// Descriptor of the pipe from which a child reads its secret, once.
inline constexpr int kSecretDescriptor = 3;

/// Process to start.
struct ProcessSpec {
  std::string label;                     ///< Name in messages: "front[data=0]", "agent worker0".
  std::vector<std::string> command;      ///< Arguments; command[0] is the executable's path.
  std::vector<std::string> environment;  ///< "KEY=VALUE", in addition to this process's own.
  /// File for stdout and stderr. Empty: both are inherited, stdin too.
  std::filesystem::path log_file;
  /// Secret of 32 bytes that the process reads from kSecretDescriptor, if there is one.
  Secret secret = {};
  /// Limit of its memory in bytes; 0: none. Enforced by a control group, or else by RLIMIT_DATA.
  /// The process (own_memory_cap()) and its ExitReport name the mechanism.
  std::uint64_t memory_cap = 0;
  /// True if it starts children with caps itself. It then gets a control group of its own where it
  /// could make none for them otherwise.
  bool starts_capped_children = false;
};

/// Callbacks about a process, on the launcher's thread. They must not block.
struct ProcessEvents {
  /// Called when the process will never run again. Comes early: its memory may not be freed yet.
  std::function<void(const ExitReport&)> on_death;
  /// Called when the process is reaped and all of its process group killed: its resources are free.
  std::function<void(const ExitReport&)> on_reaped;
  /// Called once if the process, or one of its threads, has been stopped for kDeathTimeout. The
  /// evidence has `silence_text`. May be empty.
  std::function<void(const ExitReport&)> on_stopped = {};
};

/// Launcher of processes that reports, as their parent, when and why they end. Any thread.
class ProcessLauncher {
 public:
  virtual ~ProcessLauncher() = default;
  /// Starts a process in a process group of its own. It gets SIGKILL when this process dies.
  /// Returns its pid. Throws Error(kResourceExhausted) if the system lacks processes, descriptors
  /// or memory, Error(kFailedPrecondition) if the executable cannot be run or the log file cannot
  /// be written.
  virtual pid_t launch(const ProcessSpec& spec, ProcessEvents events) = 0;
  /// Sends `signal` to the process group. Does nothing if the process has ended.
  virtual void signal(pid_t pid, int signal) = 0;
  /// Sends SIGTERM to the process group, and SIGKILL after `grace`, which ends stopped processes
  /// too.
  virtual void stop(pid_t pid, Nanoseconds grace) = 0;
  /// Calls stop() for all and waits until all are reaped, for `grace` and some seconds at most.
  virtual void stop_all(Nanoseconds grace) = 0;
  /// Calls signal() for all.
  virtual void signal_all(int signal) = 0;
};

}  // namespace weft::actors

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "actors/supervision/exit_evidence.h"
#include "core/base/clock.h"
#include "core/base/secret.h"

namespace weft::actors {

/// Where a child reads its secret from, once: a pipe.
inline constexpr int kSecretDescriptor = 3;

/// What to start.
struct ProcessSpec {
  std::string label;                     ///< for messages: "front[data=0]", "agent worker0"
  std::vector<std::string> command;      ///< command[0] is the path of the executable
  std::vector<std::string> environment;  ///< "KEY=VALUE", in addition to this process's own
  /// receives stdout and stderr; empty: both are inherited, stdin too
  std::filesystem::path log_file;
  /// if there is one: 32 bytes that the process reads from kSecretDescriptor
  Secret secret = {};
  /// What it may hold of memory at most, in bytes; 0: no limit. By a control group, or else by
  /// RLIMIT_DATA; the process knows by which (own_memory_cap()), and so does its ExitEvidence.
  std::uint64_t memory_cap = 0;
  /// It starts children with caps itself. So it gets a control group of its own where it could make
  /// none for them otherwise.
  bool caps_children = false;
};

/// Called on the launcher's thread; must not block.
struct ProcessEvents {
  /// The process will never run again. Comes first and fast: its memory may still be going.
  std::function<void(const ExitEvidence&)> on_death;
  /// It is reaped, and all of its process group killed: what it held is free.
  std::function<void(const ExitEvidence&)> on_reaped;
  /// It lives, but it, or one of its threads, has been stopped for kSilenceLimit (the evidence has
  /// `silence`). Once. May be empty.
  std::function<void(const ExitEvidence&)> on_stopped = {};
};

/// Starts processes and tells, as their parent, when and why they end. Any thread.
class ProcessLauncher {
 public:
  virtual ~ProcessLauncher() = default;
  /// Starts a process in a process group of its own, which gets SIGKILL when this process dies.
  /// Returns its pid. Throws Error(kNotFound) when the executable cannot be run, kResourceExhausted
  /// when the system has no more processes or descriptors, kFailedPrecondition when its log file
  /// cannot be written.
  virtual pid_t launch(const ProcessSpec& spec, ProcessEvents events) = 0;
  /// Sends `signal` to the process group; nothing when it has ended.
  virtual void signal(pid_t pid, int signal) = 0;
  /// SIGTERM now, SIGKILL to the group after `grace`: SIGKILL is what ends a stopped process.
  virtual void stop(pid_t pid, Nanoseconds grace) = 0;
  /// stop() for all, and waits until all are reaped: at most `grace` and a moment.
  virtual void stop_all(Nanoseconds grace) = 0;
  /// signal() to all.
  virtual void signal_all(int signal) = 0;
};

}  // namespace weft::actors

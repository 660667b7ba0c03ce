#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "actors/supervision/process_launcher.h"
#include "actors/supervision/signal_handler.h"
#include "core/base/platform.h"

namespace weft::actors {

/// Processes and signals of a simulation, in place of the system's.
class ProcessPlatform {
 public:
  virtual ~ProcessPlatform() = default;
  /// Returns the processes of the simulation; null in a real process, and if it has none.
  static ProcessPlatform* simulated() {
    return dynamic_cast<ProcessPlatform*>(Platform::simulated());
  }
  /// Returns whether there is a process of that number.
  virtual bool lives(pid_t process) = 0;
  /// Returns a launcher for the process that runs now.
  virtual std::unique_ptr<ProcessLauncher> make_launcher() = 0;
  /// Passes signals to the process that runs now to `on_signal`, on a thread of that process,
  /// instead of ending it. Returns a number for unwatch_signals().
  virtual std::uint64_t watch_signals(std::function<void(const ReceivedSignal&)> on_signal) = 0;
  virtual void unwatch_signals(std::uint64_t watch) = 0;
  /// See actors::kill_self().
  [[noreturn]] virtual void kill_self(int signal) = 0;
};

/// Returns a ForkLauncher, or the launcher of a simulation.
std::unique_ptr<ProcessLauncher> make_launcher();

/// Returns whether there is a process of that number on this machine that has not ended.
bool process_exists(pid_t process);

}  // namespace weft::actors

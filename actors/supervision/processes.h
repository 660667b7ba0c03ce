#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "actors/supervision/process_launcher.h"
#include "actors/supervision/signal_watch.h"

namespace weft::actors {

/// What a simulated world has in place of processes and signals.
class Processes {
 public:
  virtual ~Processes() = default;
  /// Null in the real world; see Platform.
  static Processes* simulated() { return simulated_; }
  /// Whether there is a process of that number.
  virtual bool lives(pid_t process) = 0;
  /// Of the process that runs now.
  virtual std::unique_ptr<ProcessLauncher> make_launcher() = 0;
  /// Signals to the process that runs now go to `on_signal`, on a thread of it, instead of ending
  /// it; until unwatch_signals() with the number that this returns.
  virtual std::uint64_t watch_signals(std::function<void(const ReceivedSignal&)> on_signal) = 0;
  virtual void unwatch_signals(std::uint64_t watch) = 0;
  /// See actors::die_of().
  [[noreturn]] virtual void die_of(int signal) = 0;

 protected:
  static void set_simulated(Processes* processes) { simulated_ = processes; }

 private:
  inline static Processes* simulated_ = nullptr;
};

/// A ForkLauncher, or what a simulated world has in its place.
std::unique_ptr<ProcessLauncher> make_launcher();

/// Whether there is a process of that number on this machine, and it has not ended.
bool process_lives(pid_t process);

}  // namespace weft::actors

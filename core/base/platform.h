#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/base/clock.h"

namespace weft {

/// Operating system services that a simulation replaces: threads, blocking, time, randomness,
/// process ids.
///
/// Thread, Mutex, Condition, SteadyClock and the functions below use the real system unless a
/// simulation is set. A simulation runs all of its processes in one thread of one real process, one
/// simulated thread at a time. It switches between them only inside these functions. A simulation
/// of a cluster also is an actors::ControlNetwork and an actors::ProcessPlatform.
class Platform {
 public:
  virtual ~Platform() = default;
  /// Returns the simulation, or null in a real process. It must be set before any thread,
  /// connection or clock is used.
  static Platform* simulated() { return simulated_; }

  virtual TimePoint now() = 0;
  /// Starts a thread of the current simulated process. Returns the thread's number.
  virtual std::uint64_t start_thread(const std::string& name, std::function<void()> run) = 0;
  virtual std::uint64_t current_thread() = 0;
  /// Blocks until the thread has ended.
  virtual void join_thread(std::uint64_t thread) = 0;
  /// Blocks until wake() is called for `on` or time `until` is reached. Returns false on timeout.
  virtual bool wait(const void* on, TimePoint until) = 0;
  /// Wakes one thread, or all threads, blocked on `on`.
  virtual void wake(const void* on, bool all) = 0;
  virtual void fill_with_random(std::span<std::byte> bytes) = 0;
  virtual int process_id() = 0;
  /// Writes a log line that would go to the process's standard output or error.
  virtual void log(const std::string& line) = 0;
  /// Ends the current simulated process like _exit().
  [[noreturn]] virtual void end_process(int status) = 0;

 protected:
  static void set_simulated(Platform* platform) { simulated_ = platform; }

 private:
  inline static Platform* simulated_ = nullptr;
};

/// Returns the id of this process.
int process_id();
/// Ends this process at once like _exit(): no destructor runs.
[[noreturn]] void end_process(int status);
/// Fills `bytes` with cryptographically secure random bytes. Throws Error(kInternal) if the system
/// call fails.
void fill_with_random(std::span<std::byte> bytes);

}  // namespace weft

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/base/clock.h"

namespace weft {

/// What the operating system gives a process, where a simulation stands in its place: threads,
/// waits, time, randomness, an identity.
///
/// Thread, Mutex, Condition, SteadyClock and the others that ask for it use the system itself when
/// there is none, which is so in every process but a simulator. A simulated world runs all of its
/// processes in one thread of one real process, one simulated thread at a time; they change only
/// inside of these functions.
class Platform {
 public:
  virtual ~Platform() = default;
  /// Null in the real world. Set before any thread, connection or clock is used.
  static Platform* simulated() { return simulated_; }

  virtual TimePoint now() = 0;
  /// Starts a thread of the process that runs now; returns its number.
  virtual std::uint64_t start_thread(const std::string& name, std::function<void()> run) = 0;
  virtual std::uint64_t current_thread() = 0;
  /// Waits until the thread has ended.
  virtual void join_thread(std::uint64_t thread) = 0;
  /// Waits until somebody calls wake() for `on`, or until a time; false: the time has come.
  virtual bool wait(const void* on, TimePoint until) = 0;
  /// Lets one or all of those go on that wait for `on`.
  virtual void wake(const void* on, bool all) = 0;
  virtual void fill_with_random(std::span<std::byte> bytes) = 0;
  virtual int process_id() = 0;
  /// A line of a log that would go to this process's standard output or error.
  virtual void log(const std::string& line) = 0;
  /// Ends the process that runs now, as _exit() does.
  [[noreturn]] virtual void end_process(int status) = 0;

 protected:
  static void set_simulated(Platform* platform) { simulated_ = platform; }

 private:
  inline static Platform* simulated_ = nullptr;
};

/// The number of this process.
int process_id();
/// Ends this process at once, as _exit() does: nothing is destroyed.
[[noreturn]] void end_process(int status);
/// Bytes that nobody can guess. Throws Error(kInternal) if the system has none.
void fill_with_random(std::span<std::byte> bytes);

}  // namespace weft

#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "core/base/clock.h"
#include "core/base/platform.h"

namespace weft {

/// Scheduling priority of a thread.
enum class ThreadPriority {
  kOrdinary,
  /// High priority if the system permits it (root, or a nice limit). For threads whose rare
  /// messages keep a process from being considered dead, such as heartbeats.
  kControl,
};

/// Named thread; like std::thread, it must be joined or detached. Simulated in a simulation (see
/// Platform).
class Thread final {
 public:
  Thread() = default;
  /// Starts a thread. Tools show the first 15 characters of `name`.
  Thread(const std::string& name, ThreadPriority share, std::function<void()> run);
  bool joinable() const { return real_.joinable() || simulated_ != 0; }
  void join();
  void detach();
  /// Returns true if this is the calling thread.
  bool is_current() const;

 private:
  std::thread real_;
  std::uint64_t simulated_ = 0;
};

/// Sets the priority of the calling thread. Threads that it starts get ordinary priority.
void set_thread_priority(ThreadPriority share);
/// Returns the nice value of ordinary threads, with which child processes must start.
int ordinary_nice();

/// Replacement of std::mutex that also works in a simulation.
class Mutex final {
 public:
  void lock() {
    if (Platform::simulated() == nullptr) real_.lock();
    else lock_simulated();
  }
  void unlock() {
    if (Platform::simulated() == nullptr) real_.unlock();
    else unlock_simulated();
  }

 private:
  friend class Condition;
  void lock_simulated();
  void unlock_simulated();

  std::mutex real_;
  bool held_ = false;  ///< used in a simulation only
};

/// Replacement of std::condition_variable that also works in a simulation.
class Condition final {
 public:
  void notify_one();
  void notify_all();
  void wait(std::unique_lock<Mutex>& lock) { wait_until(lock, TimePoint::max()); }
  /// Returns false on timeout.
  bool wait_until(std::unique_lock<Mutex>& lock, TimePoint until);

  template <typename Predicate>
  void wait(std::unique_lock<Mutex>& lock, Predicate is_so) {
    while (!is_so()) wait(lock);
  }
  template <typename Predicate>
  bool wait_until(std::unique_lock<Mutex>& lock, TimePoint until, Predicate is_so) {
    while (!is_so())
      if (!wait_until(lock, until)) return is_so();
    return true;
  }
  template <typename Predicate>
  bool wait_for(std::unique_lock<Mutex>& lock, Nanoseconds time, Predicate is_so) {
    return wait_until(lock, SteadyClock().now() + time, std::move(is_so));
  }

 private:
  std::condition_variable real_;
};

}  // namespace weft

#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "core/base/clock.h"
#include "core/base/platform.h"

namespace weft {

/// How much of a busy machine a thread may have.
enum class ThreadShare {
  kOrdinary,
  /// Others wait for what it says, and it says little: before all ordinary threads where the system
  /// allows it (root, or a limit on nice), so that nobody who lives is taken for dead.
  kControl,
};

/// A thread with a name that tools show; as std::thread, it must be joined or detached. Simulated
/// where the world is (see Platform).
class Thread final {
 public:
  Thread() = default;
  /// `name`: its first 15 characters count.
  Thread(const std::string& name, ThreadShare share, std::function<void()> run);
  bool joinable() const { return real_.joinable() || simulated_ != 0; }
  void join();
  void detach();
  /// Whether it is the one that calls.
  bool is_current() const;

 private:
  std::thread real_;
  std::uint64_t simulated_ = 0;
};

/// Gives the calling thread its share; threads that it starts are ordinary all the same.
void use_share(ThreadShare share);
/// The nice value of ordinary threads: what a child process has to start with.
int ordinary_nice();

/// As std::mutex; simulated where the world is.
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
  bool held_ = false;  ///< where the world is simulated
};

/// As std::condition_variable; simulated where the world is.
class Condition final {
 public:
  void notify_one();
  void notify_all();
  void wait(std::unique_lock<Mutex>& lock) { wait_until(lock, TimePoint::max()); }
  /// False: the time has come.
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

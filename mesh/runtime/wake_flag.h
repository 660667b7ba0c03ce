#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace weft::mesh {

/// Flag that other threads set to wake the thread that runs a program. Shared with callbacks, which
/// may outlive the run. set(): any thread; wait(): one thread.
class WakeFlag final {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    is_set_ = true;
    changed_.notify_one();
  }
  /// Waits for set() since the last wait(), at most for `limit`. Clears the flag.
  void wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [this] { return is_set_; });
    is_set_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;  // guarded by mutex_
};

}  // namespace weft::mesh

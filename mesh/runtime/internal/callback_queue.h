#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/clock.h"

namespace weft::mesh {

/// Queue of callbacks from other threads, which the owner runs on its own thread in order of
/// arrival. Any thread.
class CallbackQueue final {
 public:
  using QueuedCallback = std::function<void()>;

  /// Announces work that ends with put() or cancel_expected().
  void expect() {
    const std::lock_guard lock(mutex_);
    ++expected_;
  }
  void put(QueuedCallback callback) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(callback));
    end_one();
  }
  void cancel_expected() {
    const std::lock_guard lock(mutex_);
    end_one();
  }

  std::vector<QueuedCallback> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(queue_, {});
  }
  /// Returns whether no work is expected.
  bool quiescent() const {
    const std::lock_guard lock(mutex_);
    return expected_ == 0;
  }
  /// Blocks until quiescent(), for at most `limit`. Returns whether it is.
  bool wait_quiescent(Nanoseconds limit) const {
    std::unique_lock lock(mutex_);
    return idle_.wait_for(lock, limit, [&] { return expected_ == 0; });
  }

 private:
  void end_one() {
    if (--expected_ == 0) idle_.notify_all();
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable idle_;
  std::vector<QueuedCallback> queue_;  // guarded by mutex_
  std::uint64_t expected_ = 0;         // guarded by mutex_
};

}  // namespace weft::mesh

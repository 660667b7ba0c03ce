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
class Inbox final {
 public:
  using News = std::function<void()>;

  /// Announces work that ends with put() or withdraw().
  void expect() {
    const std::lock_guard lock(mutex_);
    ++expected_;
  }
  void put(News news) {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(news));
    end_one();
  }
  void withdraw() {
    const std::lock_guard lock(mutex_);
    end_one();
  }

  std::vector<News> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(news_, {});
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
  std::vector<News> news_;      // guarded by mutex_
  std::uint64_t expected_ = 0;  // guarded by mutex_
};

}  // namespace weft::mesh

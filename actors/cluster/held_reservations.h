#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <vector>

#include "actors/agent/agent_messages.h"
#include "core/base/thread.h"

namespace weft::actors {

/// Keys of the reservations that this owner has. Any thread.
class HeldReservations final {
 public:
  std::vector<MeshKey> keys() const {
    const std::lock_guard lock(mutex_);
    return keys_;
  }
  enum class Added { kYes, kHeldAlready, kNotCurrent };
  /// Adds a reservation if `is_current` returns true, which is asked under the lock of keys().
  Added add_if(const std::function<bool()>& is_current, const MeshKey& key) {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(keys_, key) != keys_.end()) return Added::kHeldAlready;
    if (!is_current()) return Added::kNotCurrent;
    keys_.push_back(key);
    return Added::kYes;
  }
  void remove(const MeshKey& key) {
    const std::lock_guard lock(mutex_);
    std::erase(keys_, key);
  }

 private:
  mutable Mutex mutex_;
  std::vector<MeshKey> keys_;  // guarded by mutex_
};

}  // namespace weft::actors

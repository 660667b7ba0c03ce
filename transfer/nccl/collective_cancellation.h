#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace weft::transfer {

/// Ends waits of one epoch of a mesh from outside. Any thread.
class CollectiveCancellation final {
 public:
  /// Everything that belongs to `epoch` or an older one ends with `error`; later epochs are not
  /// concerned.
  void cancel(std::uint64_t epoch, Error error);
  /// Throws the error if `epoch` was cancelled.
  void check(std::uint64_t epoch) const;
  /// Waits for a short while, or until something is cancelled.
  void pause(Nanoseconds time);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t epoch_ = 0;     // guarded by mutex_; meaningful where error_ is
  std::optional<Error> error_;  // guarded by mutex_
};

}  // namespace weft::transfer

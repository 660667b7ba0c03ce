#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace weft::transfer {

/// Cancels waits of one epoch of a mesh from outside. Any thread.
class CollectiveCancellation final {
 public:
  /// Ends all waits of `epoch` and older epochs with `error`. Later epochs are not affected.
  void cancel(std::uint64_t epoch, Error error);
  /// Throws the error if `epoch` was cancelled.
  void check(std::uint64_t epoch) const;
  /// Blocks for `time`, or until something is cancelled.
  void pause(Nanoseconds time);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t epoch_ = 0;     // guarded by mutex_; valid if error_ is set
  std::optional<Error> error_;  // guarded by mutex_
};

}  // namespace weft::transfer

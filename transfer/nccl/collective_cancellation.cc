#include "transfer/nccl/collective_cancellation.h"

#include <utility>

namespace weft::transfer {

void CollectiveCancellation::cancel(std::uint64_t epoch, Error error) {
  const std::lock_guard lock(mutex_);
  if (error_ && epoch <= epoch_) return;
  epoch_ = epoch;
  error_ = std::move(error);
  changed_.notify_all();
}

void CollectiveCancellation::check(std::uint64_t epoch) const {
  const std::lock_guard lock(mutex_);
  if (error_ && epoch <= epoch_) throw Error(*error_);
}

void CollectiveCancellation::pause(Nanoseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time);
}

}  // namespace weft::transfer

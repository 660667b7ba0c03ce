#include "transfer/execute/slot_pool.h"

#include <algorithm>
#include <bit>

namespace weft::transfer {

SlotPool::SizeClass& SlotPool::shelf(std::size_t capacity) {
  for (SizeClass& shelf : shelves_) {
    if (shelf.capacity == capacity) return shelf;
  }
  return shelves_.emplace_back(SizeClass{capacity, {}});
}

SlotPool::LeasedSlot SlotPool::take(std::size_t bytes) {
  LeasedSlot slot;
  slot.pool_ = this;
  slot.size_ = bytes;
  slot.capacity_ = std::bit_ceil(std::max<std::size_t>(bytes, 256));
  auto& free = shelf(slot.capacity_).free;
  if (free.empty()) {
    // memory is not zeroed
    slot.memory_ =
        allocate_ ? allocate_(slot.capacity_) : StagingMemory(new std::byte[slot.capacity_]);
  } else {
    slot.memory_ = std::move(free.back());
    free.pop_back();
  }
  on_loan_ += slot.capacity_;
  peak_ = std::max(peak_, on_loan_);
  return slot;
}

void SlotPool::give_back(StagingMemory memory, std::size_t capacity) {
  on_loan_ -= capacity;
  auto& free = shelf(capacity).free;
  if (free.size() < kMaxFreePerSizeClass) free.push_back(std::move(memory));
}

}  // namespace weft::transfer

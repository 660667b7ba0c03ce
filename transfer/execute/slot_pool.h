#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "transfer/execute/engine_options.h"

namespace weft::transfer {

/// Pool of chunk-sized memory, reused so that staging does not fault in fresh pages each time.
///
/// Owned by the engine's dispatcher. Transfer thread only.
class SlotPool final {
 public:
  /// Piece of memory on loan, returned to the pool by the destructor. The pool must outlive it.
  class LeasedSlot final {
   public:
    LeasedSlot() = default;
    LeasedSlot(LeasedSlot&& other) noexcept { swap(other); }
    LeasedSlot& operator=(LeasedSlot&& other) noexcept {
      LeasedSlot(std::move(other)).swap(*this);
      return *this;
    }
    ~LeasedSlot() {
      if (pool_ != nullptr) pool_->give_back(std::move(memory_), capacity_);
    }

    explicit operator bool() const { return pool_ != nullptr; }
    std::span<std::byte> bytes() { return {memory_.get(), size_}; }

   private:
    friend class SlotPool;
    void swap(LeasedSlot& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(memory_, other.memory_);
      std::swap(size_, other.size_);
      std::swap(capacity_, other.capacity_);
    }
    SlotPool* pool_ = nullptr;
    StagingMemory memory_;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
  };

  /// `allocate` is EngineOptions::staging.
  explicit SlotPool(std::function<StagingMemory(std::size_t)> allocate = {})
      : allocate_(std::move(allocate)) {}

  LeasedSlot take(std::size_t bytes);
  std::size_t bytes_on_loan() const { return on_loan_; }
  std::size_t peak_bytes() const { return peak_; }

 private:
  struct SizeClass {
    std::size_t capacity;
    std::vector<StagingMemory> free;
  };
  static constexpr std::size_t kMaxFreePerSizeClass = 16;
  void give_back(StagingMemory memory, std::size_t capacity);
  SizeClass& shelf(std::size_t capacity);

  const std::function<StagingMemory(std::size_t)> allocate_;
  std::vector<SizeClass> shelves_;  // few, one per power of two
  std::size_t on_loan_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace weft::transfer

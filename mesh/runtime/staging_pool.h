#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <utility>

#include "core/device/device.h"

namespace weft::mesh {

/// Pool of host staging memory, such as pinned memory, for copies from and to a device. Steps need
/// equal sizes, and pinning is slow, so freed blocks are kept. Owner's thread only.
class StagingPool final {
 public:
  /// Block of the pool. Returns to the pool on destruction, which must come before the pool's.
  class Block final {
   public:
    Block() = default;
    Block(Block&& other) noexcept { swap(other); }
    Block& operator=(Block&& other) noexcept {
      Block(std::move(other)).swap(*this);
      return *this;
    }
    ~Block() {
      if (pool_ != nullptr) pool_->give_back(std::move(memory_));
    }
    /// Returns as many bytes as were requested.
    std::span<std::byte> span() const { return {memory_.data(), size_}; }

   private:
    friend class StagingPool;
    Block(StagingPool& pool, DeviceMemory memory, std::size_t size)
        : pool_(&pool), memory_(std::move(memory)), size_(size) {}
    void swap(Block& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(memory_, other.memory_);
      std::swap(size_, other.size_);
    }
    StagingPool* pool_ = nullptr;
    DeviceMemory memory_;
    std::size_t size_ = 0;
  };

  /// `kept`: limit of unused bytes that the pool keeps.
  explicit StagingPool(Device& device, std::size_t kept = std::size_t{2} << 30)
      : device_(device), most_kept_(kept) {}

  /// Returns a block of `bytes` bytes. Throws Error(kResourceExhausted) if memory is exhausted.
  Block take(std::size_t bytes);
  std::size_t bytes_in_use() const { return in_use_; }
  std::size_t bytes_kept() const { return kept_; }

 private:
  void give_back(DeviceMemory memory) noexcept;

  Device& device_;
  const std::size_t most_kept_;
  std::multimap<std::size_t, DeviceMemory> free_;  ///< Free blocks by size.
  std::size_t in_use_ = 0;
  std::size_t kept_ = 0;
};

}  // namespace weft::mesh

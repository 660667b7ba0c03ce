#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/cuda/internal/event_pool.h"
#include "core/cuda_support/cuda_plugin.h"
#include "core/device/device.h"

namespace weft {

/// One NVIDIA GPU, through CUDA's runtime.
///
/// Large blocks are the driver's (cudaMalloc): they live long, and a pool would keep them from each
/// other. Small ones come from the GPU's stream-ordered pool, which gives nothing back to the
/// driver until memory runs short. Staging memory is pinned, for all GPUs.
///
/// Errors of CUDA become Error: kResourceExhausted without memory, kFailedPrecondition for a GPU
/// that cannot be used, kInternal for what work did; after some of those the process has lost its
/// GPU (see cuda_call.h), says so, and its supervisor replaces it.
class CudaDevice final : public Device {
 public:
  /// Throws Error(kFailedPrecondition) if there is no such GPU or it runs nothing.
  explicit CudaDevice(const CudaDeviceOptions& options);
  ~CudaDevice() override;

  std::string description() const override { return description_; }
  DeviceMemory allocate(std::size_t bytes) override;
  DeviceMemory allocate_staging(std::size_t bytes) override;
  std::unique_ptr<Stream> create_stream() override;
  bool is_host_memory() const override { return false; }
  std::vector<std::string> notes() const override;
  /// For notes(), unless it is there already. Any thread.
  void note(const std::string& text);

  const CudaDeviceOptions& options() const { return options_; }
  const std::shared_ptr<EventPool>& events() const { return events_; }
  /// "GPU 0"
  const std::string& name() const { return name_; }
  /// Makes this GPU the calling thread's.
  void make_current() const;

 private:
  enum class Origin : std::uint8_t { kDriver, kPool, kPinned };
  struct Block {
    Origin origin = Origin::kDriver;
    std::size_t size = 0;
  };
  void release(std::byte* data, std::size_t size) noexcept override;
  /// Null if there is no such memory left.
  std::byte* take(Origin origin, std::size_t bytes);
  std::byte* remember(std::byte* data, Block block);
  /// Gives back to the driver what the pool holds and nobody uses.
  void trim_pool();
  [[noreturn]] void throw_exhausted(std::size_t bytes);

  const CudaDeviceOptions options_;
  const std::string name_;
  std::string description_;
  bool has_pool_ = false;
  CUstream_st* allocations_ = nullptr;  ///< Orders the pool's blocks.
  std::shared_ptr<EventPool> events_;   ///< Shared with events, which may end last.

  mutable std::mutex mutex_;
  std::unordered_map<std::byte*, Block> blocks_;  // guarded by mutex_
  std::vector<std::string> notes_;                // guarded by mutex_
};

}  // namespace weft

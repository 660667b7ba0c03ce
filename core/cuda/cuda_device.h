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

/// NVIDIA GPU, used through the CUDA runtime.
///
/// Large blocks come from the driver (cudaMalloc): they live long, and a pool would withhold their
/// freed memory from other large blocks. Small blocks come from the stream-ordered pool, which
/// returns memory to the driver only when memory runs short. Staging memory is pinned, for all
/// GPUs.
///
/// CUDA errors become Error: kResourceExhausted if memory ran out, kFailedPrecondition if the GPU
/// cannot be used, kInternal for failed work. After some of these the process cannot use its GPU
/// any more (see cuda_call.h). The message says so, and the supervisor must restart the process.
class CudaDevice final : public Device {
 public:
  /// Throws Error(kFailedPrecondition) if the GPU does not exist or cannot run kernels.
  explicit CudaDevice(const CudaDeviceOptions& options);
  ~CudaDevice() override;

  std::string description() const override { return description_; }
  DeviceMemory allocate(std::size_t bytes) override;
  DeviceMemory allocate_staging(std::size_t bytes) override;
  std::unique_ptr<Stream> create_stream() override;
  bool is_host_memory() const override { return false; }
  std::vector<std::string> notes() const override;
  /// Adds a text to notes(), unless it is already there. Thread-safe.
  void note(const std::string& text);

  const CudaDeviceOptions& options() const { return options_; }
  const std::shared_ptr<EventPool>& events() const { return events_; }
  /// Returns the GPU's name: "GPU 0".
  const std::string& name() const { return name_; }
  /// Makes this GPU the current device of the calling thread.
  void make_current() const;

 private:
  enum class Origin : std::uint8_t { kDriver, kPool, kPinned };
  struct AllocatedBlock {
    Origin origin = Origin::kDriver;
    std::size_t size = 0;
  };
  void release(std::byte* data, std::size_t size) noexcept override;
  /// Allocates memory. Returns null if there is not enough.
  std::byte* take(Origin origin, std::size_t bytes);
  std::byte* remember(std::byte* data, AllocatedBlock block);
  /// Returns the pool's unused memory to the driver.
  void trim_pool();
  [[noreturn]] void throw_exhausted(std::size_t bytes);

  const CudaDeviceOptions options_;
  const std::string name_;
  std::string description_;
  bool has_pool_ = false;
  CUstream_st* allocations_ = nullptr;  ///< Stream that orders allocations from the pool.
  std::shared_ptr<EventPool> events_;   ///< Shared with events, which may outlive this object.

  mutable std::mutex mutex_;
  std::unordered_map<std::byte*, AllocatedBlock> blocks_;  // guarded by mutex_
  std::vector<std::string> notes_;                         // guarded by mutex_
};

}  // namespace weft

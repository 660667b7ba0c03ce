#include "core/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>

#include "core/base/units.h"
#include "core/cuda/internal/cuda_call.h"
#include "core/cuda/internal/cuda_stream.h"

namespace weft {
namespace {

/// Size from which a block comes from the driver instead of the pool.
constexpr std::size_t kLargeBlock = std::size_t{1} << 20;

int attribute(cudaDeviceAttr which, int gpu) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, gpu),
             fmt::format("asking GPU {} for attribute {}", gpu, static_cast<int>(which)));
  return value;
}

cudaMemPool_t default_pool(int gpu) {
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, gpu),
             fmt::format("asking GPU {} for its memory pool", gpu));
  return pool;
}

}  // namespace

CudaDevice::CudaDevice(const CudaDeviceOptions& options)
    : options_(options),
      name_(fmt::format("GPU {}", options.gpu)),
      events_(std::make_shared<EventPool>(options.gpu)) {
  make_current();
  // Threads that wait for a stream block: by default they would each keep a core busy.
  check_cuda(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "setting up " + name_);
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, options_.gpu), "asking " + name_ + " what it is");
  int driver = 0;
  check_cuda(cudaDriverGetVersion(&driver), "asking for the driver's version");
  description_ = fmt::format(
      "cuda ({}, sm_{}{}, {}, driver {}.{})", properties.name, properties.major, properties.minor,
      format_bytes(properties.totalGlobalMem), driver / 1000, driver % 1000 / 10);
  has_pool_ = attribute(cudaDevAttrMemoryPoolsSupported, options_.gpu) != 0;
  if (!has_pool_) return;
  std::uint64_t threshold = std::numeric_limits<std::uint64_t>::max();
  check_cuda(cudaMemPoolSetAttribute(default_pool(options_.gpu), cudaMemPoolAttrReleaseThreshold,
                                     &threshold),
             "setting up the memory pool of " + name_);
  check_cuda(cudaStreamCreateWithFlags(&allocations_, cudaStreamNonBlocking),
             "making a stream on " + name_);
}

CudaDevice::~CudaDevice() {
  cudaSetDevice(options_.gpu);
  if (allocations_ != nullptr) cudaStreamDestroy(allocations_);
  cudaGetLastError();
}

void CudaDevice::make_current() const { check_cuda(cudaSetDevice(options_.gpu), "using " + name_); }

std::byte* CudaDevice::take(Origin origin, std::size_t bytes) {
  void* data = nullptr;
  cudaError_t status = cudaSuccess;
  switch (origin) {
    case Origin::kDriver: status = cudaMalloc(&data, bytes); break;
    case Origin::kPinned: status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable); break;
    case Origin::kPool:
      // Synchronizes the stream, which runs nothing else, so that any stream may use the block.
      status = cudaMallocAsync(&data, bytes, allocations_);
      if (status == cudaSuccess) status = cudaStreamSynchronize(allocations_);
      break;
  }
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check_cuda(status,
             fmt::format("allocating {} {} {}", format_bytes(bytes),
                         origin == Origin::kPinned ? "for copies to and from" : "on", name_));
  return static_cast<std::byte*>(data);
}

std::byte* CudaDevice::remember(std::byte* data, AllocatedBlock block) {
  const std::lock_guard lock(mutex_);
  blocks_.emplace(data, block);
  return data;
}

void CudaDevice::trim_pool() {
  if (!has_pool_) return;
  check_cuda(cudaMemPoolTrimTo(default_pool(options_.gpu), 0),
             "giving back pooled memory of " + name_);
}

DeviceMemory CudaDevice::allocate(std::size_t bytes) {
  make_current();
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  const Origin origin = has_pool_ && size < kLargeBlock ? Origin::kPool : Origin::kDriver;
  std::byte* data = take(origin, size);
  if (data == nullptr) {
    trim_pool();
    data = take(origin, size);
  }
  if (data == nullptr) throw_exhausted(bytes);
  return {*this, remember(data, {origin, size}), bytes};
}

DeviceMemory CudaDevice::allocate_staging(std::size_t bytes) {
  make_current();
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  std::byte* const data = take(Origin::kPinned, size);
  if (data == nullptr) {
    throw_error(ErrorCode::kResourceExhausted,
                "the host has no {} of pinned memory left for copies to and from {}",
                format_bytes(bytes), name_);
  }
  return {*this, remember(data, {Origin::kPinned, size}), bytes};
}

void CudaDevice::throw_exhausted(std::size_t bytes) {
  std::size_t free = 0;
  std::size_t total = 0;
  cudaMemGetInfo(&free, &total);
  std::size_t used = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [data, block] : blocks_)
      used += block.origin == Origin::kPinned ? 0 : block.size;
  }
  throw_error(
      ErrorCode::kResourceExhausted,
      "{} has no {} of memory left: {} in total, {} free, {} used by tensors and programs of "
      "this process; the rest is used by libraries and other processes. Use smaller "
      "microbatches, `recompute: true`, or more devices",
      name_, format_bytes(bytes), format_bytes(total), format_bytes(free), format_bytes(used));
}

void CudaDevice::release(std::byte* data, std::size_t) noexcept {
  AllocatedBlock block;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(data);
    if (found == blocks_.end()) return;
    block = found->second;
    blocks_.erase(found);
  }
  // Errors of earlier work are reported here too; they are ignored, as streams report them.
  cudaSetDevice(options_.gpu);
  switch (block.origin) {
    case Origin::kDriver: cudaFree(data); break;
    case Origin::kPool: cudaFreeAsync(data, allocations_); break;
    case Origin::kPinned: cudaFreeHost(data); break;
  }
  cudaGetLastError();
}

std::vector<std::string> CudaDevice::notes() const {
  const std::lock_guard lock(mutex_);
  return notes_;
}

void CudaDevice::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(notes_, text) == notes_.end()) notes_.push_back(text);
}

std::unique_ptr<Stream> CudaDevice::create_stream() {
  make_current();
  return std::make_unique<CudaStream>(*this);
}

}  // namespace weft

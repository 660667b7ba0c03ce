// Copies boxes of bytes within a GPU, to pack and unpack regions of a transfer.
//
// grid.y is the number of copies of a launch, grid.x the number of blocks that share one. A thread
// moves units of 1 to 16 bytes in strides of grid.x; adjacent threads move adjacent units.
#include <cuda_runtime.h>

#include <algorithm>

#include "core/base/error.h"
#include "transfer/nccl_plugin/internal/launch.h"

namespace weft::transfer {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::uint64_t kBlocks = 132 * 4;

template <typename ScheduleItem>
__device__ void move_box(const BoxCopy& copy) {
  const std::uint64_t units_per_run = copy.run_bytes / sizeof(ScheduleItem),
                      units = copy.bytes / sizeof(ScheduleItem);
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t unit = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       unit < units; unit += step) {
    std::uint64_t run = unit / units_per_run;
    const std::uint64_t within = (unit - run * units_per_run) * sizeof(ScheduleItem);
    std::uint64_t from = within, to = within;
    for (int d = static_cast<int>(copy.dimensions) - 1; d >= 0; --d) {
      const std::uint64_t outer = run / copy.count[d], index = run - outer * copy.count[d];
      from += index * copy.from_stride[d];
      to += index * copy.to_stride[d];
      run = outer;
    }
    *reinterpret_cast<ScheduleItem*>(copy.to + to) =
        *reinterpret_cast<const ScheduleItem*>(copy.from + from);
  }
}

__global__ void strided_copy_kernel(const __grid_constant__ BoxCopies copies) {
  const BoxCopy& copy = copies.copy[blockIdx.y];
  switch (copy.unit) {
    case 16: move_box<uint4>(copy); break;
    case 8: move_box<std::uint64_t>(copy); break;
    case 4: move_box<std::uint32_t>(copy); break;
    case 2: move_box<std::uint16_t>(copy); break;
    default: move_box<std::uint8_t>(copy); break;
  }
}

}  // namespace

void launch_copies(const BoxCopies& copies, void* stream) {
  if (copies.count == 0) return;
  std::uint64_t most = 0;
  for (std::uint32_t i = 0; i < copies.count; ++i)
    most = std::max(most, copies.copy[i].bytes / copies.copy[i].unit);
  const auto blocks =
      static_cast<unsigned>(std::min<std::uint64_t>(kBlocks, (most + kThreads - 1) / kThreads));
  strided_copy_kernel<<<dim3(blocks, copies.count), kThreads, 0,
                        static_cast<cudaStream_t>(stream)>>>(copies);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    throw_error(ErrorCode::kInternal, "packing {} regions on the GPU: {}", copies.count,
                cudaGetErrorString(status));
}

}  // namespace weft::transfer

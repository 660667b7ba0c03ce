// to[i] += from[i]: a thread per element in strides of the grid.
#include <cuda_runtime.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/kernels_cuda/internal/launch.h"

namespace weft {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kBlocks = 132 * 8;

__global__ void add_kernel(const float* from, float* to, std::size_t count) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) to[i] += from[i];
}

}  // namespace

void launch_add(std::span<const float> from, std::span<float> to, CudaStreamHandle stream) {
  if (from.empty()) return;
  const auto blocks = static_cast<unsigned>(std::min(kBlocks, (from.size() + kThreads - 1) / kThreads));
  add_kernel<<<blocks, kThreads, 0, stream>>>(from.data(), to.data(), from.size());
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    throw_error(ErrorCode::kInternal, "add of {} elements: {}", from.size(), cudaGetErrorString(status));
}

}  // namespace weft

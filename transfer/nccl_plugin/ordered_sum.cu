// Computes to[i] = terms[0][i] + terms[1][i] + ..., always in this order, so that results are
// bitwise reproducible. One thread per element, in strides of the grid. bf16 accumulates in float
// and rounds once, to nearest even.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "core/base/error.h"
#include "transfer/nccl_plugin/internal/launch.h"

namespace weft::transfer {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::uint64_t kBlocks = 132 * 8;

template <typename T>
__device__ T load(const T* value) {
  return *value;
}
__device__ float load(const __nv_bfloat16* value) { return __bfloat162float(*value); }
template <typename T>
__device__ void store(T* to, T value) {
  *to = value;
}
__device__ void store(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

template <typename T>
__global__ void ordered_sum_kernel(const __grid_constant__ SumTerms terms, std::uint64_t count,
                                   T* to) {
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    auto sum = load(static_cast<const T*>(terms.term[0]) + i);
    for (std::uint32_t term = 1; term < terms.count; ++term)
      sum += load(static_cast<const T*>(terms.term[term]) + i);
    store(to + i, sum);
  }
}

template <typename T>
void launch(const SumTerms& terms, std::uint64_t count, void* to, void* stream) {
  const auto blocks =
      static_cast<unsigned>(std::min<std::uint64_t>(kBlocks, (count + kThreads - 1) / kThreads));
  ordered_sum_kernel<T><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      terms, count, static_cast<T*>(to));
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    throw_error(ErrorCode::kInternal, "a sum of {} terms on the GPU: {}", terms.count,
                cudaGetErrorString(status));
}

}  // namespace

void launch_sum(DType dtype, const SumTerms& terms, std::uint64_t count, void* to, void* stream) {
  if (count == 0) return;
  switch (dtype) {
    case DType::kF32: launch<float>(terms, count, to, stream); return;
    case DType::kF64: launch<double>(terms, count, to, stream); return;
    case DType::kI32: launch<std::int32_t>(terms, count, to, stream); return;
    case DType::kBF16: launch<__nv_bfloat16>(terms, count, to, stream); return;
    case DType::kU8: break;
  }
  throw_error(ErrorCode::kInvalidArgument, "{} cannot be summed", to_string(dtype));
}

}  // namespace weft::transfer

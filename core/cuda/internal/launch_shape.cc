#include <cuda_runtime_api.h>

#include "core/base/error.h"
#include "core/cuda/internal/launch_shape.cuh"

namespace weft::cuda {

void throw_launch_failure(const char* kernel, const LaunchShape& shape, int cuda_error) {
  const auto error = static_cast<cudaError_t>(cuda_error);
  cudaGetLastError();
  throw_error(
      error == cudaErrorMemoryAllocation ? ErrorCode::kResourceExhausted : ErrorCode::kInternal,
      "kernel {} of {} x {} x {} blocks of {} x {} threads with {} bytes of shared memory: {} ({})",
      kernel, shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y,
      shape.shared_bytes, cudaGetErrorString(error), cudaGetErrorName(error));
}

}  // namespace weft::cuda

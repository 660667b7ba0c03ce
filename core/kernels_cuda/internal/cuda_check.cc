#include "core/kernels_cuda/internal/cuda_check.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "core/base/error.h"
#include "core/kernels_cuda/internal/launch_shape.cuh"

namespace weft::cuda {

void check_cuda(int cuda_error, const char* what) {
  const auto error = static_cast<cudaError_t>(cuda_error);
  if (error == cudaSuccess) return;
  cudaGetLastError();  // An error that is not sticky is forgotten: it is told here.
  throw_error(error == cudaErrorMemoryAllocation ? ErrorCode::kResourceExhausted : ErrorCode::kInternal, "{}: {} ({})", what,
              cudaGetErrorString(error), cudaGetErrorName(error));
}

void check_cublas(int cublas_status, const char* what) {
  const auto status = static_cast<cublasStatus_t>(cublas_status);
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw_error(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kResourceExhausted : ErrorCode::kInternal, "{}: {} ({})", what,
              cublasLtGetStatusString(status), cublasLtGetStatusName(status));
}

void throw_launch_failure(const char* kernel, const LaunchShape& shape, int cuda_error) {
  const auto error = static_cast<cudaError_t>(cuda_error);
  cudaGetLastError();
  throw_error(error == cudaErrorMemoryAllocation ? ErrorCode::kResourceExhausted : ErrorCode::kInternal,
              "kernel {} of {} x {} x {} blocks of {} x {} threads with {} bytes of shared memory: {} ({})", kernel, shape.grid.x,
              shape.grid.y, shape.grid.z, shape.block.x, shape.block.y, shape.shared_bytes, cudaGetErrorString(error),
              cudaGetErrorName(error));
}

}  // namespace weft::cuda

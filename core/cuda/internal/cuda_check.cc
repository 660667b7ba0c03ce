#include "core/cuda/internal/cuda_check.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "core/base/error.h"

namespace weft::cuda {

void check_cuda(int cuda_error, const char* what) {
  const auto error = static_cast<cudaError_t>(cuda_error);
  if (error == cudaSuccess) return;
  cudaGetLastError();  // clears a non-sticky error, which is reported here
  throw_error(
      error == cudaErrorMemoryAllocation ? ErrorCode::kResourceExhausted : ErrorCode::kInternal,
      "{}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

void check_cublas(int cublas_status, const char* what) {
  const auto status = static_cast<cublasStatus_t>(cublas_status);
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw_error(
      status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kResourceExhausted : ErrorCode::kInternal,
      "{}: {} ({})", what, cublasLtGetStatusString(status), cublasLtGetStatusName(status));
}

}  // namespace weft::cuda

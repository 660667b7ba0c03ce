#include "core/cuda/internal/cuda_call.h"

#include <cuda_runtime_api.h>

namespace weft {

bool is_sticky(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed: return true;
    default: return false;
  }
}

Error cuda_error(cudaError_t status, std::string_view what) {
  cudaGetLastError();
  const std::string text =
      fmt::format("{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
  switch (status) {
    case cudaErrorMemoryAllocation: return {ErrorCode::kResourceExhausted, text};
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoKernelImageForDevice: return {ErrorCode::kFailedPrecondition, text};
    default: break;
  }
  if (is_sticky(status))
    return {ErrorCode::kInternal, text + "; this process cannot use its GPU any more: restart it"};
  return {ErrorCode::kInternal, text};
}

}  // namespace weft

#include "transfer/nccl_plugin/internal/nccl_check.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace weft::transfer {
namespace {

ErrorCode code_of(ncclResult_t result) {
  switch (result) {
    case ncclRemoteError: return ErrorCode::kPeerDied;
    case ncclSystemError: return ErrorCode::kUnavailable;
    case ncclInvalidArgument:
    case ncclInvalidUsage: return ErrorCode::kInvalidArgument;
    default: return ErrorCode::kInternal;
  }
}

std::string_view advice(ncclResult_t result) {
  switch (result) {
    case ncclUnhandledCudaError: return "CUDA failed; is there enough memory on the GPU?";
    case ncclSystemError:
      return "a socket, file or shared memory was refused; is NCCL_SOCKET_IFNAME an interface of "
             "this host?";
    case ncclRemoteError: return "another rank has died or is unreachable";
    case ncclInvalidUsage:
      return "are two ranks on one GPU? (tests: give their processes different NCCL_HOSTID)";
    default: return "set NCCL_DEBUG=INFO for details";
  }
}

}  // namespace

std::string nccl_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "asking for the version of NCCL");
  return fmt::format("NCCL {}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

Error nccl_error(ncclResult_t result, std::string_view what, ncclComm_t communicator) {
  const char* last = ncclGetLastError(communicator);
  const std::string detail = last == nullptr || *last == '\0' ? "" : fmt::format(" ({})", last);
  return {code_of(result),
          fmt::format("{}: {}{}; {}", what, ncclGetErrorString(result), detail, advice(result))};
}

void use_gpu(int gpu) {
  if (const cudaError_t status = cudaSetDevice(gpu); status != cudaSuccess)
    throw_error(ErrorCode::kFailedPrecondition, "GPU {} cannot be used: {}", gpu,
                cudaGetErrorString(status));
}

}  // namespace weft::transfer

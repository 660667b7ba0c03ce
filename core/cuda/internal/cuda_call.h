#pragma once

#include <driver_types.h>

#include <string_view>

#include "core/base/error.h"

namespace weft {

/// Whether the process has lost its GPU with this error: every later call fails too.
bool is_sticky(cudaError_t status);

/// What a failed CUDA call means: `what` was being done, "copying 3 MiB on GPU 0". Takes the error
/// off the runtime's "last error".
Error cuda_error(cudaError_t status, std::string_view what);

/// Throws cuda_error() unless the call was a success.
inline void check_cuda(cudaError_t status, std::string_view what) {
  if (status != cudaSuccess) [[unlikely]]
    throw cuda_error(status, what);
}

}  // namespace weft

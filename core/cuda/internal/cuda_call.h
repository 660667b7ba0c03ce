#pragma once

#include <driver_types.h>

#include <string_view>

#include "core/base/error.h"

namespace weft {

/// Returns true if the process cannot use the GPU any more after this error: all later calls fail.
bool is_sticky(cudaError_t status);

/// Returns the Error for a failed CUDA call and clears the runtime's last error. `what` names the
/// activity: "copying 3 MiB on GPU 0".
Error cuda_error(cudaError_t status, std::string_view what);

/// Throws cuda_error() unless the call succeeded.
inline void check_cuda(cudaError_t status, std::string_view what) {
  if (status != cudaSuccess) [[unlikely]]
    throw cuda_error(status, what);
}

}  // namespace weft

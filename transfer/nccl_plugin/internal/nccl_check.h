#pragma once

#include <nccl.h>

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace weft::transfer {

/// Returns the version of the loaded library, such as "NCCL 2.28.9". It may differ from the version
/// compiled against.
std::string nccl_version();

/// Builds the Error of a failed NCCL call, with NCCL's last message. `what` is the attempted
/// action, such as "creating rank 1 of weft {0,1}".
Error nccl_error(ncclResult_t result, std::string_view what, ncclComm_t communicator = nullptr);

/// Throws nccl_error() unless the call succeeded or continues in the background (ncclInProgress).
inline void check_nccl(ncclResult_t result, std::string_view what,
                       ncclComm_t communicator = nullptr) {
  if (result != ncclSuccess && result != ncclInProgress) [[unlikely]]
    throw nccl_error(result, what, communicator);
}

/// Selects the calling thread's GPU, on which NCCL and launches work.
void use_gpu(int gpu);

}  // namespace weft::transfer

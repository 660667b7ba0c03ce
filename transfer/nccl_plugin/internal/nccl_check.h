#pragma once

#include <nccl.h>

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace weft::transfer {

/// "NCCL 2.28.9" of the library that runs, which need not be the one that was compiled against.
std::string nccl_version();

/// What a failed NCCL call means: `what` was being done, "creating rank 1 of weft {0,1}". With
/// NCCL's own last message.
Error nccl_error(ncclResult_t result, std::string_view what, ncclComm_t communicator = nullptr);

/// Throws nccl_error() unless the call was a success or goes on by itself (ncclInProgress).
inline void check_nccl(ncclResult_t result, std::string_view what,
                       ncclComm_t communicator = nullptr) {
  if (result != ncclSuccess && result != ncclInProgress) [[unlikely]]
    throw nccl_error(result, what, communicator);
}

/// Makes it the calling thread's GPU: that is the one that NCCL and launches work on.
void use_gpu(int gpu);

}  // namespace weft::transfer

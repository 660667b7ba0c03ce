#pragma once

namespace weft::cuda {

// Throw Error unless the call succeeded: kResourceExhausted if memory ran out, else kInternal.
// `what` names the call.
void check_cuda(int cuda_error, const char* what);
void check_cublas(int cublas_status, const char* what);

}  // namespace weft::cuda

#pragma once

namespace weft::cuda {

// Each throws Error unless the call succeeded: kResourceExhausted if memory ran out, else
// kInternal. `what` says what was tried.
void check_cuda(int cuda_error, const char* what);
void check_cublas(int cublas_status, const char* what);

}  // namespace weft::cuda

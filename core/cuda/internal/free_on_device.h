#pragma once

#include <cuda_runtime_api.h>

namespace weft::cuda {

/// Deleter of GPU memory that cudaMalloc() returned.
struct FreeOnDevice {
  void operator()(void* memory) const { cudaFree(memory); }
};

}  // namespace weft::cuda

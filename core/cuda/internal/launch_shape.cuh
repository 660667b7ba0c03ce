#pragma once

#include <vector_types.h>

#include <cstddef>

namespace weft::cuda {

struct LaunchShape {
  dim3 grid, block;
  std::size_t shared_bytes = 0;  ///< Dynamic shared memory in bytes.
};

/// Throws Error(kInternal or kResourceExhausted) with the kernel's name, its launch shape and the
/// CUDA error.
[[noreturn]] void throw_launch_failure(const char* kernel, const LaunchShape& shape,
                                       int cuda_error);

}  // namespace weft::cuda

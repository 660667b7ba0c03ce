#pragma once

#include <vector_types.h>

#include <cstddef>

namespace weft::cuda {

struct LaunchShape {
  dim3 grid, block;
  std::size_t shared_bytes = 0;  ///< Dynamic shared memory.
};

/// Throws Error(kInternal), or kResourceExhausted, that names the kernel, its launch shape and the
/// run time's reason.
[[noreturn]] void throw_launch_failure(const char* kernel, const LaunchShape& shape,
                                       int cuda_error);

}  // namespace weft::cuda

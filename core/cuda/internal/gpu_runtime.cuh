#pragma once

// Compiler and run-time services that kernel files (.cuh) use, for nvcc: launches, shared memory,
// asynchronous copies to it, bf16. A .cu file includes this file and then kernel files. The
// contract suite replaces this file to run the same kernels on the CPU
// (tests/contract/kernels/host_language.h).
#include <cuda_bf16.h>
#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "core/cuda/internal/launch_shape.cuh"
#include "core/cuda/internal/launches.h"

namespace weft::cuda {

/// Lets blocks of a kernel have all dynamic shared memory that the GPU has beside the kernel's
/// static shared memory. Always the same value, as it applies to all threads that launch the
/// kernel.
inline cudaError_t allow_all_shared_memory(const void* kernel) {
  int gpu = 0, all = 0;
  cudaFuncAttributes attributes{};
  cudaError_t error = cudaGetDevice(&gpu);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu);
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              all - static_cast<int>(attributes.sharedSizeBytes));
}

/// Queues kernel(arguments...). No effect if the grid is empty.
template <typename... Parameters, typename... Arguments>
void launch(StreamHandle stream, const char* name, const LaunchShape& shape,
            void (*kernel)(Parameters...), Arguments... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  // Static and dynamic shared memory of up to 48 KiB together need no permission.
  constexpr std::size_t kFitsBesideStatic = 32 * 1024;
  cudaError_t error = cudaSuccess;
  if (shape.shared_bytes > kFitsBesideStatic)
    error = allow_all_shared_memory(reinterpret_cast<const void*>(kernel));
  if (error == cudaSuccess) {
    cudaLaunchConfig_t config{};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = stream;
    error = cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
  }
  if (error != cudaSuccess) throw_launch_failure(name, shape, static_cast<int>(error));
}

template <typename T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
}

/// Rounds to nearest, ties to even.
__device__ __forceinline__ std::uint16_t round_to_bf16(float value) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

}  // namespace weft::cuda

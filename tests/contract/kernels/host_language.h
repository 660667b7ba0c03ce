#pragma once

// Replaces core/cuda/internal/gpu_runtime.cuh: defines CUDA's keywords and functions for the CPU's
// compiler, so that kernel files run in host_grid. Only host_kernels.cc includes it, before the
// kernel files.
#include <math.h>

#include <bit>
#include <cstdint>
#include <utility>

#include "core/cuda/internal/launches.h"
#include "core/tensor/bfloat16.h"
#include "tests/contract/kernels/host_grid.h"

// NOLINTBEGIN(bugprone-reserved-identifier, cert-dcl37-c, cert-dcl51-cpp)
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static
#define threadIdx (::weft::test::host_thread.thread)
#define blockIdx (::weft::test::host_thread.block)
#define blockDim (::weft::test::host_thread.block_size)
#define gridDim (::weft::test::host_thread.grid_size)

namespace weft::cuda {

using dim3 = test::Dim3;

struct LaunchShape {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

template <typename... Parameters, typename... Arguments>
void launch(StreamHandle, const char* name, const LaunchShape& shape, void (*kernel)(Parameters...),
            Arguments... arguments) {
  if (shape.grid.count() == 0) return;
  const auto run = [=] {
    test::run_grid(name, shape.grid, shape.block, shape.shared_bytes,
                   [&] { kernel(static_cast<Parameters>(arguments)...); });
  };
  if (test::host_launches_to) {
    test::host_launches_to(run);
  } else {
    run();
  }
}

template <typename T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(test::host_dynamic_shared());
}

inline std::uint16_t round_to_bf16(float value) { return BFloat16(value).bits; }

inline void __syncthreads() { test::host_block_barrier(); }

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int distance) {
  const unsigned lane = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
  T result{};
  if (mask == 0xffffffffu)
    test::host_shuffle(&value, &result, sizeof(T), lane ^ static_cast<unsigned>(distance));
  return result;
}

inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t size) {
  test::host_copy_async(to, from, size);
}
inline void __pipeline_commit() { test::host_commit_copies(); }
inline void __pipeline_wait_prior(std::size_t pending) { test::host_wait_for_copies(pending); }

inline float __uint_as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }

}  // namespace weft::cuda
// NOLINTEND(bugprone-reserved-identifier, cert-dcl37-c, cert-dcl51-cpp)

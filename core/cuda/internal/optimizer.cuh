#pragma once

// AdamW and sums of squares, for up to 256 tensors per launch. The list of tensors is a kernel
// parameter, so that nothing is copied to the GPU first. A block finds its tensor by the tensors'
// first blocks.
#include <cmath>

#include "core/cuda/internal/pack.cuh"
#include "core/device/adamw_constants.h"

namespace weft::cuda {

inline constexpr int kOptimizerThreads = 256;
inline constexpr int kTensorsPerLaunch = 256;
inline constexpr std::int64_t kElementsPerBlock = 4096;  ///< Used by AdamW.
inline constexpr std::int64_t kSquaresPerBlock = 16384;  ///< Used by sums of squares.

/// List of tensors as a kernel parameter. Kernel parameters may have up to 32764 bytes.
template <typename Tensor>
struct TensorTable {
  Tensor tensors[kTensorsPerLaunch];
  std::uint32_t first_block[kTensorsPerLaunch + 1];
  int count = 0;
  static_assert(sizeof(Tensor) <= 64);

  bool full() const { return count == kTensorsPerLaunch; }
  std::uint32_t blocks() const { return count == 0 ? 0 : first_block[count]; }
  void append(const Tensor& tensor, std::int64_t elements_per_block) {
    if (count == 0) first_block[0] = 0;
    tensors[count] = tensor;
    first_block[count + 1] = first_block[count] + blocks_for(tensor.size, elements_per_block);
    ++count;
  }

  /// Returns the tensor of a block: the last one whose first block is not after it. Empty tensors
  /// have no block.
  __device__ __forceinline__ int tensor_of(std::uint32_t block) const {
    int low = 0, high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first_block[middle] <= block ? low : high) = middle;
    }
    return low;
  }
};

struct AdamWTensor {
  const float* gradient;
  float *value, *first_moment, *second_moment;
  Bf16* working;  ///< May be null.
  std::int64_t size;
  float decay;  ///< learning rate * weight decay
  bool wide;    ///< True if all addresses are multiples of 16 bytes.
};

template <int N>
__device__ __forceinline__ void adamw_pack(const AdamWTensor& t, const AdamWConstants& k,
                                           std::int64_t i) {
  const Pack<float, N> gradients = load<N>(t.gradient + i);
  Pack<float, N> values = load<N>(t.value + i), first = load<N>(t.first_moment + i),
                 second = load<N>(t.second_moment + i);
  Pack<Bf16, N> working;
  for (int n = 0; n < N; ++n) {
    const float g = gradients[n] * k.gradient_scale, p = values[n];
    const float m = k.beta1 * first[n] + k.one_minus_beta1 * g;
    const float v = k.beta2 * second[n] + k.one_minus_beta2 * (g * g);
    const float updated =
        p - t.decay * p - k.step_size * (m / (sqrtf(v) * k.inverse_root_correction + k.epsilon));
    first.set(n, m);
    second.set(n, v);
    values.set(n, updated);
    working.set(n, updated);
  }
  store<N>(t.first_moment + i, first);
  store<N>(t.second_moment + i, second);
  store<N>(t.value + i, values);
  if (t.working != nullptr) store<N>(t.working + i, working);
}

template <typename Table>
__global__ void __launch_bounds__(kOptimizerThreads)
    adamw_kernel(const __grid_constant__ Table table, AdamWConstants constants) {
  const int index = table.tensor_of(blockIdx.x);
  const AdamWTensor tensor = table.tensors[index];
  const std::int64_t begin =
      static_cast<std::int64_t>(blockIdx.x - table.first_block[index]) * kElementsPerBlock;
  const std::int64_t end =
      begin + kElementsPerBlock < tensor.size ? begin + kElementsPerBlock : tensor.size;
  std::int64_t packs_end = begin;
  if (tensor.wide) {
    packs_end = begin + (end - begin) / 4 * 4;
#pragma unroll 2
    for (std::int64_t i = begin + threadIdx.x * 4; i < packs_end; i += kOptimizerThreads * 4)
      adamw_pack<4>(tensor, constants, i);
  }
  for (std::int64_t i = packs_end + threadIdx.x; i < end; i += kOptimizerThreads)
    adamw_pack<1>(tensor, constants, i);
}

void adamw(StreamHandle stream, const AdamW& step, std::span<const AdamWParameter> parameters) {
  const AdamWConstants constants = adamw_constants(step);
  using Table = TensorTable<AdamWTensor>;
  Table table;
  const auto queue = [&] {
    launch(stream, "adamw", {table.blocks(), kOptimizerThreads}, adamw_kernel<Table>, table,
           constants);
    table.count = 0;
  };
  for (const AdamWParameter& p : parameters) {
    AdamWTensor tensor{p.gradient.data(),
                       p.value.data(),
                       p.first_moment.data(),
                       p.second_moment.data(),
                       reinterpret_cast<Bf16*>(p.working.data),
                       static_cast<std::int64_t>(p.value.size()),
                       adamw_decay(step, p),
                       false};
    tensor.wide = aligned(tensor.gradient) && aligned(tensor.value) &&
                  aligned(tensor.first_moment) && aligned(tensor.second_moment) &&
                  aligned(tensor.working);
    table.append(tensor, kElementsPerBlock);
    if (table.full()) queue();
  }
  queue();
}

struct SquaresTensor {
  const float* values;
  std::int64_t size;
};

/// Adds one number per thread over a block, in a fixed order. Thread 0 has the result. `shared` has
/// one element per warp.
template <typename Number>
__device__ __forceinline__ Number sum_optimizer_block(Number value, Number* shared) {
  value = sum_lanes(value);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  Number total = 0;
  for (unsigned warp = 0; warp < kOptimizerThreads / kWarp; ++warp) total += shared[warp];
  return total;
}

template <typename Table>
__global__ void __launch_bounds__(kOptimizerThreads)
    squares_kernel(const __grid_constant__ Table table, double* partial) {
  __shared__ double shared[kOptimizerThreads / kWarp];
  const int index = table.tensor_of(blockIdx.x);
  const SquaresTensor tensor = table.tensors[index];
  const std::int64_t begin =
      static_cast<std::int64_t>(blockIdx.x - table.first_block[index]) * kSquaresPerBlock;
  const std::int64_t end =
      begin + kSquaresPerBlock < tensor.size ? begin + kSquaresPerBlock : tensor.size;
  const bool wide = reinterpret_cast<std::uintptr_t>(tensor.values) % 16 == 0;
  const std::int64_t packs_end = wide ? begin + (end - begin) / 4 * 4 : begin;
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = begin + threadIdx.x * 4; i < packs_end; i += kOptimizerThreads * 4) {
    const Pack<float, 4> values = load<4>(tensor.values + i);
    for (int n = 0; n < 4; ++n) sum += values[n] * static_cast<double>(values[n]);
  }
  for (std::int64_t i = packs_end + threadIdx.x; i < end; i += kOptimizerThreads) {
    sum += tensor.values[i] * static_cast<double>(tensor.values[i]);
  }
  const double total = sum_optimizer_block(sum, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

/// Adds the partial sums of a tensor's blocks, with one block per tensor.
template <typename Table>
__global__ void __launch_bounds__(kOptimizerThreads)
    finish_squares_kernel(const __grid_constant__ Table table, const double* partial,
                          double* results) {
  __shared__ double shared[kOptimizerThreads / kWarp];
  double sum = 0;
  for (std::uint32_t b = table.first_block[blockIdx.x] + threadIdx.x;
       b < table.first_block[blockIdx.x + 1]; b += kOptimizerThreads) {
    sum += partial[b];
  }
  const double total = sum_optimizer_block(sum, shared);
  if (threadIdx.x == 0) results[blockIdx.x] = total;
}

std::int64_t sums_of_squares_workspace(std::span<const std::span<const float>> tensors) {
  std::int64_t blocks = 0;
  for (const std::span<const float> tensor : tensors)
    blocks += blocks_for(tensor.size(), kSquaresPerBlock);
  return blocks;
}

void sums_of_squares(StreamHandle stream, std::span<const std::span<const float>> tensors,
                     double* results, double* workspace) {
  using Table = TensorTable<SquaresTensor>;
  Table table;
  const auto queue = [&] {
    launch(stream, "sums_of_squares", {table.blocks(), kOptimizerThreads}, squares_kernel<Table>,
           table, workspace);
    launch(stream, "sums_of_squares", {static_cast<unsigned>(table.count), kOptimizerThreads},
           finish_squares_kernel<Table>, table, workspace, results);
    workspace += table.blocks();
    results += table.count;
    table.count = 0;
  };
  for (const std::span<const float> tensor : tensors) {
    table.append({tensor.data(), static_cast<std::int64_t>(tensor.size())}, kSquaresPerBlock);
    if (table.full()) queue();
  }
  queue();
}

}  // namespace weft::cuda

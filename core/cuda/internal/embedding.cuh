#pragma once

// Embedding and its gradient, which adds rows to the table. The gradient must not depend on thread
// scheduling, so it uses no atomic additions. Tokens are sorted by (id, position) with a bitonic
// network on 64-bit keys. One block then adds the rows of each run of equal ids by position.
//
//   keys  id << 32 | position, padded with ~0 to a power of two
//         sorted by blocks of 1024 in shared memory; larger steps use global memory
#include "core/cuda/internal/pack.cuh"

namespace weft::cuda {

inline constexpr unsigned kTokensPerBlock = 8;  ///< Each token has a warp.
inline constexpr int kSortThreads = 512;
inline constexpr std::int64_t kSortBlock = 2 * kSortThreads;
inline constexpr int kRowThreads = 128;
inline constexpr std::uint64_t kNoToken = ~std::uint64_t{0};

template <typename T, int N>
__global__ void embedding_kernel(const T* table, const std::int32_t* ids, T* y, std::int64_t tokens,
                                 TableSlice slice, std::uint64_t fault_word, FaultWord* fault) {
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * kTokensPerBlock + threadIdx.y;
  if (token >= tokens) return;
  const std::int32_t id = ids[token];
  const bool known = id >= 0 && id < slice.num_rows;
  if (!known && threadIdx.x == 0) *fault = fault_word | static_cast<std::uint32_t>(id);
  const std::int64_t at = id - slice.first;
  const bool here = known && at >= 0 && at < slice.count;
  for (std::int64_t c = static_cast<std::int64_t>(threadIdx.x) * N; c < slice.columns;
       c += kWarp * N) {
    Pack<T, N> row{};
    if (here) row = load<N>(table + at * slice.columns + c);
    store<N>(y + token * slice.columns + c, row);
  }
}

/// Computes the sort keys. A template, like all kernels here, so that several sources may include
/// this file.
template <typename Id>
__global__ void make_keys_kernel(const Id* ids, std::uint64_t* keys, std::int64_t tokens,
                                 std::int64_t padded, TableSlice slice, std::uint64_t fault_word,
                                 FaultWord* fault) {
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * kSortThreads + threadIdx.x;
  if (token >= padded) return;
  std::uint64_t key = kNoToken;
  if (token < tokens) {
    const Id id = ids[token];
    const std::int64_t at = id - slice.first;
    if (id < 0 || id >= slice.num_rows) {
      *fault = fault_word | static_cast<std::uint32_t>(id);
    } else if (at >= 0 && at < slice.count) {
      key = static_cast<std::uint64_t>(at) << 32 | static_cast<std::uint64_t>(token);
    }
  }
  keys[token] = key;
}

/// Swaps a and b if needed, so that their run is ascending if `ascending`, else descending.
template <typename Key>
__device__ __forceinline__ void compare_exchange(Key& a, Key& b, bool ascending) {
  if ((a > b) != ascending) return;
  const Key kept = a;
  a = b;
  b = kept;
}

/// Returns the first index of pair `pair` of elements `distance` apart. Distances are powers of
/// two.
__device__ __forceinline__ std::int64_t first_of_pair(std::int64_t pair, std::int64_t distance) {
  return pair / distance * (2 * distance) + pair % distance;
}

/// Sorts within blocks of kSortBlock keys: all steps for runs of `first_length` to `last_length`
/// with distances of at most half a block.
template <typename Key>
__global__ void __launch_bounds__(kSortThreads)
    sort_in_block_kernel(Key* keys, std::int64_t first_length, std::int64_t last_length) {
  __shared__ Key shared[kSortBlock];
  const std::int64_t begin = blockIdx.x * kSortBlock;
  const int thread = threadIdx.x;
  shared[thread] = keys[begin + thread];
  shared[thread + kSortThreads] = keys[begin + thread + kSortThreads];
  for (std::int64_t length = first_length; length <= last_length; length *= 2) {
    const std::int64_t widest = length / 2 < kSortThreads ? length / 2 : kSortThreads;
    for (std::int64_t distance = widest; distance > 0; distance /= 2) {
      __syncthreads();
      const std::int64_t at = first_of_pair(thread, distance);
      compare_exchange(shared[at], shared[at + distance], ((begin + at) & length) == 0);
    }
  }
  __syncthreads();
  keys[begin + thread] = shared[thread];
  keys[begin + thread + kSortThreads] = shared[thread + kSortThreads];
}

/// Runs one step for runs of `length`, with a distance of at least a block.
template <typename Key>
__global__ void sort_step_kernel(Key* keys, std::int64_t length, std::int64_t distance) {
  const std::int64_t at =
      first_of_pair(static_cast<std::int64_t>(blockIdx.x) * kSortThreads + threadIdx.x, distance);
  compare_exchange(keys[at], keys[at + distance], (at & length) == 0);
}

/// Returns the end of the run of equal ids that begins at `begin`, by exponential and binary
/// search.
template <typename Key>
__device__ __forceinline__ std::int64_t end_of_run(const Key* keys, std::int64_t begin,
                                                   std::int64_t size) {
  const Key id = keys[begin] >> 32;
  // `inside` is known to be in the run; `outside` is known to be beyond it.
  std::int64_t inside = begin, outside = size;
  std::int64_t step = 1;
  while (inside + step < outside && keys[inside + step] >> 32 == id) {
    inside += step;
    step *= 2;
  }
  if (inside + step < outside) outside = inside + step;
  while (outside - inside > 1) {
    const std::int64_t middle = inside + (outside - inside) / 2;
    (keys[middle] >> 32 == id ? inside : outside) = middle;
  }
  return outside;
}

/// Adds rows with one block per key; only blocks at the start of a run work.
template <typename T, int N>
__global__ void embedding_grad_kernel(const std::uint64_t* keys, const T* dy, float* dtable,
                                      std::int64_t tokens, std::int64_t columns) {
  const std::int64_t begin = blockIdx.x;
  const std::uint64_t key = keys[begin];
  if (key == kNoToken) return;
  const std::int64_t id = key >> 32;
  if (begin > 0 && static_cast<std::int64_t>(keys[begin - 1] >> 32) == id) return;
  const std::int64_t end = end_of_run(keys, begin, tokens);
  for (std::int64_t c = static_cast<std::int64_t>(threadIdx.x) * N; c < columns;
       c += std::int64_t{kRowThreads} * N) {
    float sums[N] = {};
#pragma unroll 8
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t token = keys[i] & 0xffffffffu;
      const Pack<T, N> values = load<N>(dy + token * columns + c);
      for (int n = 0; n < N; ++n) sums[n] += values[n];
    }
    Pack<float, N> row = load<N>(dtable + id * columns + c);
    for (int n = 0; n < N; ++n) row.set(n, row[n] + sums[n]);
    store<N>(dtable + id * columns + c, row);
  }
}

void embedding(StreamHandle stream, DType type, const void* table, const std::int32_t* ids, void* y,
               std::int64_t tokens, const TableSlice& slice, std::uint64_t fault_word,
               FaultWord* fault) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    with_pack<T>(slice.columns % kPackElements<T> == 0 && aligned(table) && aligned(y),
                 [&](auto n) {
                   launch(stream, "embedding",
                          {blocks_for(tokens, kTokensPerBlock), dim3(kWarp, kTokensPerBlock)},
                          embedding_kernel<T, decltype(n)::value>, static_cast<const T*>(table),
                          ids, static_cast<T*>(y), tokens, slice, fault_word, fault);
                 });
  });
}

std::int64_t embedding_grad_workspace(std::int64_t tokens) {
  std::int64_t padded = kSortBlock;
  while (padded < tokens) padded *= 2;
  return padded;
}

void embedding_grad(StreamHandle stream, DType type, const std::int32_t* ids, const void* dy,
                    float* dtable, std::int64_t tokens, const TableSlice& slice,
                    std::uint64_t* workspace, std::uint64_t fault_word, FaultWord* fault) {
  const char* const name = "embedding_grad";
  const std::int64_t padded = embedding_grad_workspace(tokens);
  std::uint64_t* const keys = workspace;
  const LaunchShape sort_blocks{static_cast<unsigned>(padded / kSortBlock), kSortThreads};
  launch(stream, name, {blocks_for(padded, kSortThreads), kSortThreads},
         make_keys_kernel<std::int32_t>, ids, keys, tokens, padded, slice, fault_word, fault);
  launch(stream, name, sort_blocks, sort_in_block_kernel<std::uint64_t>, keys, std::int64_t{2},
         kSortBlock);
  for (std::int64_t length = 2 * kSortBlock; length <= padded; length *= 2) {
    for (std::int64_t distance = length / 2; distance >= kSortBlock; distance /= 2) {
      launch(stream, name, sort_blocks, sort_step_kernel<std::uint64_t>, keys, length, distance);
    }
    launch(stream, name, sort_blocks, sort_in_block_kernel<std::uint64_t>, keys, length, length);
  }
  with_type(type, [&](auto t) {
    using T = decltype(t);
    with_pack<T>(slice.columns % kPackElements<T> == 0 && aligned(dy) && aligned(dtable),
                 [&](auto n) {
                   launch(stream, name, {static_cast<unsigned>(tokens), kRowThreads},
                          embedding_grad_kernel<T, decltype(n)::value>, keys,
                          static_cast<const T*>(dy), dtable, tokens, slice.columns);
                 });
  });
}

}  // namespace weft::cuda

#pragma once

// Column-wise sums over the rows of a[batch, rows, columns]: bias gradients, weight gradients of
// norms, statistics of group norm. Two stages, so that the order of additions depends on the sizes
// only:
//
//   1. The rows are cut into splits. A block of 8 warps handles one split of 32 packs of columns.
//      Warp w adds rows w, w + 8, ...; the 8 sums are then added in order into
//      partial[batch][split][sum][column].
//   2. Adds the partial sums of all splits in the same way and writes the result.
#include "core/cuda/internal/pack.cuh"

namespace weft::cuda {

inline constexpr int kSumWarps = 8;
/// Target number of blocks: four per multiprocessor of an H100. Constant, so that results do not
/// depend on the GPU.
inline constexpr std::int64_t kBlocksWanted = 528;
inline constexpr std::int64_t kRowsPerSplitAtLeast = 32;
inline constexpr std::int64_t kPackForPlanning = 8;

/// Number of splits, and rows in each. The same for all element types.
struct Splits {
  std::int64_t count, rows;

  Splits(std::int64_t batch, std::int64_t all_rows, std::int64_t columns) {
    const std::int64_t tiles =
        batch * ((columns + kWarp * kPackForPlanning - 1) / (kWarp * kPackForPlanning));
    const std::int64_t wanted = tiles < kBlocksWanted ? kBlocksWanted / (tiles > 0 ? tiles : 1) : 1;
    const std::int64_t most = (all_rows + kRowsPerSplitAtLeast - 1) / kRowsPerSplitAtLeast;
    count = wanted < most ? wanted : most;
    if (count < 1) count = 1;
    rows = (all_rows + count - 1) / count;
    if (rows < 1) rows = 1;
  }
};

std::int64_t column_sums_workspace(std::int64_t batch, std::int64_t rows, std::int64_t columns,
                                   int sums) {
  return batch * Splits(batch, rows, columns).count * sums * columns;
}

/// Adds the sums of the block's warps in order. Warp 0 has the result.
template <int Sums, int N>
__device__ __forceinline__ void add_warps(float (&sums)[Sums][N], float* shared) {
  const unsigned lane = threadIdx.x, warp = threadIdx.y;
  for (int s = 0; s < Sums; ++s) {
    for (int n = 0; n < N; ++n) {
      __syncthreads();
      shared[warp * kWarp + lane] = sums[s][n];
      __syncthreads();
      if (warp != 0) continue;
      float total = 0;
      for (int w = 0; w < kSumWarps; ++w) total += shared[w * static_cast<int>(kWarp) + lane];
      sums[s][n] = total;
    }
  }
}

/// Runs stage 1. Terms::add(batch, row, column, sums) adds the terms of N columns from `column` on.
template <typename Terms, int N>
__global__ void column_sums_kernel(Terms terms, std::int64_t batches, std::int64_t rows,
                                   std::int64_t columns, std::int64_t rows_per_split,
                                   float* partial) {
  __shared__ float shared[kSumWarps * kWarp];
  constexpr int kSums = Terms::kSums;
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x) * N;
  const std::int64_t split = blockIdx.y;
  const std::int64_t begin = split * rows_per_split;
  const std::int64_t end = begin + rows_per_split < rows ? begin + rows_per_split : rows;
  for (std::int64_t batch = blockIdx.z; batch < batches; batch += gridDim.z) {
    float sums[kSums][N] = {};
    if (column < columns) {
#pragma unroll 4
      for (std::int64_t row = begin + threadIdx.y; row < end; row += kSumWarps)
        terms.add(batch, row, column, sums);
    }
    add_warps(sums, shared);
    if (threadIdx.y != 0 || column >= columns) continue;
    float* const to = partial + (batch * gridDim.y + split) * kSums * columns + column;
    for (int s = 0; s < kSums; ++s) {
      for (int n = 0; n < N; ++n) to[s * columns + n] = sums[s][n];
    }
  }
}

/// Destination of stage 2: y[s][batch, column].
template <typename Out, int Sums>
struct SumOutputs {
  static_assert(Sums == 1 || Sums == 2);
  Out* y[Sums];
  bool accumulate[Sums];
};

/// Runs stage 2. A block handles 32 columns of one sum of one batch entry.
template <typename Out, int Sums>
__global__ void finish_sums_kernel(const float* partial, std::int64_t batches, std::int64_t splits,
                                   std::int64_t columns, SumOutputs<Out, Sums> outputs) {
  __shared__ float shared[kSumWarps * kWarp];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  const int sum = blockIdx.y;
  for (std::int64_t batch = blockIdx.z; batch < batches; batch += gridDim.z) {
    float sums[1][1] = {};
    if (column < columns) {
#pragma unroll 16
      for (std::int64_t split = threadIdx.y; split < splits; split += kSumWarps) {
        sums[0][0] += partial[((batch * splits + split) * Sums + sum) * columns + column];
      }
    }
    add_warps(sums, shared);
    if (threadIdx.y != 0 || column >= columns) continue;
    // Selects instead of indexing: a run-time index would move the arrays to local memory.
    Out* const y = (sum == 0 ? outputs.y[0] : outputs.y[Sums - 1]) + batch * columns + column;
    const bool accumulate = sum == 0 ? outputs.accumulate[0] : outputs.accumulate[Sums - 1];
    *y = from_float<Out>(sums[0][0] + (accumulate ? to_float(*y) : 0.0f));
  }
}

/// Launches both stages. Packs of N must suit the alignment of the terms.
template <int N, typename Terms, typename Out>
void column_sums(StreamHandle stream, const char* name, const Terms& terms, std::int64_t batch,
                 std::int64_t rows, std::int64_t columns,
                 const SumOutputs<Out, Terms::kSums>& outputs, float* workspace) {
  const Splits splits(batch, rows, columns);
  // 65535 is the largest grid dimension along z.
  const unsigned layers = batch < 65535 ? batch : 65535;
  launch(stream, name,
         {dim3(blocks_for(columns, kWarp * N), splits.count, layers), dim3(kWarp, kSumWarps)},
         column_sums_kernel<Terms, N>, terms, batch, rows, columns, splits.rows, workspace);
  launch(stream, name,
         {dim3(blocks_for(columns, kWarp), Terms::kSums, layers), dim3(kWarp, kSumWarps)},
         finish_sums_kernel<Out, Terms::kSums>, workspace, batch, splits.count, columns, outputs);
}

template <typename T>
struct PlainTerms {
  static constexpr int kSums = 1;
  const T* x;
  std::int64_t rows, columns;

  template <int N>
  __device__ __forceinline__ void add(std::int64_t batch, std::int64_t row, std::int64_t column,
                                      float (&sums)[1][N]) const {
    const Pack<T, N> values = load<N>(x + (batch * rows + row) * columns + column);
    for (int n = 0; n < N; ++n) sums[0][n] += values[n];
  }
};

void sum_rows(StreamHandle stream, DType in, DType out, const void* x, void* y, std::int64_t batch,
              std::int64_t rows, std::int64_t columns, bool accumulate, float* workspace) {
  with_type(in, [&](auto t) {
    using T = decltype(t);
    with_type(out, [&](auto o) {
      using Out = decltype(o);
      with_pack<T>(aligned(x) && columns % kPackElements<T> == 0, [&](auto n) {
        column_sums<decltype(n)::value>(
            stream, "sum_rows", PlainTerms<T>{static_cast<const T*>(x), rows, columns}, batch, rows,
            columns, SumOutputs<Out, 1>{{static_cast<Out*>(y)}, {accumulate}}, workspace);
      });
    });
  });
}

}  // namespace weft::cuda

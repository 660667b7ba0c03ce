#pragma once

// Layer norm. One warp per row. A lane holds up to kHeldPacks packs of the row in registers, so
// that memory is read once; the rest of a longer row is read again from the L1 cache. See
// core/ops/layer_norm.cc for the formulas. Its gradients are in layer_norm_grad.cuh.
#include "core/cuda/internal/pack.cuh"

namespace weft::cuda {

inline constexpr int kHeldPacks = 8;
inline constexpr unsigned kRowsPerBlock = 4;  ///< Each row has a warp.

/// A lane's packs of one row, 32 packs apart.
template <typename T, int N>
struct RowPacks {
  const T* row;
  std::int64_t columns;
  Pack<T, N> held[kHeldPacks];

  __device__ __forceinline__ RowPacks(const T* row_begin, std::int64_t column_count)
      : row(row_begin), columns(column_count) {
#pragma unroll
    for (int p = 0; p < kHeldPacks; ++p) {
      const std::int64_t c = (static_cast<std::int64_t>(p) * kWarp + threadIdx.x) * N;
      if (c < columns) held[p] = load<N>(row + c);
    }
  }
};

/// Calls f(column, pack of a, pack of b) for all packs of two rows that this lane has. f may
/// overwrite the rows pack by pack.
template <typename T, int N, typename F>
__device__ __forceinline__ void for_packs(const RowPacks<T, N>& a, const RowPacks<T, N>& b, F f) {
#pragma unroll
  for (int p = 0; p < kHeldPacks; ++p) {
    const std::int64_t c = (static_cast<std::int64_t>(p) * kWarp + threadIdx.x) * N;
    if (c < a.columns) f(c, a.held[p], b.held[p]);
  }
  for (std::int64_t c = (static_cast<std::int64_t>(kHeldPacks) * kWarp + threadIdx.x) * N;
       c < a.columns; c += kWarp * N) {
    f(c, load<N>(a.row + c), load<N>(b.row + c));
  }
}

struct RowStatistics {
  float mean, inverse_deviation;
};

/// Mean, and sum of squared deviations from it.
struct RowMoments {
  float mean, squares;
};

template <typename T, int N>
__device__ __forceinline__ RowMoments row_moments(const RowPacks<T, N>& x) {
  float sum = 0;
  for_packs(x, x, [&](std::int64_t, const Pack<T, N>& v, const Pack<T, N>&) {
    for (int n = 0; n < N; ++n) sum += v[n];
  });
  const float mean = sum_lanes(sum) * (1.0f / static_cast<float>(x.columns));
  float squares = 0;
  for_packs(x, x, [&](std::int64_t, const Pack<T, N>& v, const Pack<T, N>&) {
    for (int n = 0; n < N; ++n) squares += (v[n] - mean) * (v[n] - mean);
  });
  return {mean, sum_lanes(squares)};
}

/// Computes statistics from the row.
struct OwnStatistics {
  float epsilon;

  template <typename T, int N>
  __device__ __forceinline__ RowStatistics of(const RowPacks<T, N>& x, std::int64_t) const {
    const RowMoments moments = row_moments(x);
    const float variance = moments.squares * (1.0f / static_cast<float>(x.columns));
    return {moments.mean, 1.0f / sqrtf(variance + epsilon)};
  }
};

/// Reads statistics [rows, 2] of rows of which only a part is on this device.
struct GivenStatistics {
  const float* statistics;

  template <typename T, int N>
  __device__ __forceinline__ RowStatistics of(const RowPacks<T, N>&, std::int64_t row) const {
    return {statistics[2 * row], statistics[2 * row + 1]};
  }
};

/// Returns this warp's row; at least `rows` if there is none.
__device__ __forceinline__ std::int64_t row_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.y;
}

template <typename T, int N, typename Statistics>
__global__ void __launch_bounds__(kWarp* kRowsPerBlock)
    layer_norm_kernel(const T* x, const T* gamma, const T* beta, T* y, std::int64_t rows,
                      std::int64_t columns, Statistics statistics) {
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  const RowPacks<T, N> xs(x + row * columns, columns);
  const RowStatistics s = statistics.of(xs, row);
  for_packs(xs, xs, [&](std::int64_t c, const Pack<T, N>& v, const Pack<T, N>&) {
    const Pack<T, N> g = load<N>(gamma + c), b = load<N>(beta + c);
    Pack<T, N> result;
    for (int n = 0; n < N; ++n) result.set(n, (v[n] - s.mean) * s.inverse_deviation * g[n] + b[n]);
    store<N>(y + row * columns + c, result);
  });
}

inline LaunchShape warp_per_row(std::int64_t rows) {
  return {blocks_for(rows, kRowsPerBlock), dim3(kWarp, kRowsPerBlock)};
}

/// Calls f with the pack size that the alignment of all rows permits.
template <typename T, typename F, typename... Pointers>
void with_rows(std::int64_t columns, F f, Pointers... pointers) {
  with_pack<T>(columns % kPackElements<T> == 0 && (aligned(pointers) && ...), f);
}

template <typename Statistics>
void layer_norm_with(StreamHandle stream, const char* name, DType type, const void* x,
                     const void* gamma, const void* beta, void* y, std::int64_t rows,
                     std::int64_t columns, Statistics statistics) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    with_rows<T>(
        columns,
        [&](auto n) {
          launch(stream, name, warp_per_row(rows),
                 layer_norm_kernel<T, decltype(n)::value, Statistics>, static_cast<const T*>(x),
                 static_cast<const T*>(gamma), static_cast<const T*>(beta), static_cast<T*>(y),
                 rows, columns, statistics);
        },
        x, gamma, beta, y);
  });
}

void layer_norm(StreamHandle stream, DType type, const void* x, const void* gamma, const void* beta,
                void* y, std::int64_t rows, std::int64_t columns, float epsilon) {
  layer_norm_with(stream, "layer_norm", type, x, gamma, beta, y, rows, columns,
                  OwnStatistics{epsilon});
}

}  // namespace weft::cuda

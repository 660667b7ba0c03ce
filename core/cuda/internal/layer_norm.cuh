#pragma once

// Layer norm, forward and both gradients. A warp per row: a lane holds up to kHeldPacks packs of
// the row in registers, so that memory is read once; what a longer row has beyond is read again,
// from the first-level cache. Formulas: core/ops/layer_norm.cc.
#include "core/cuda/internal/column_sums.cuh"
#include "core/cuda/internal/pack.cuh"

namespace weft::cuda {

inline constexpr int kHeldPacks = 8;
inline constexpr unsigned kRowsPerBlock = 4;  ///< One warp each.

/// A lane's packs of one row: 0, 1, ... lie 32 packs apart.
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

/// f(column, pack of a, pack of b) for all packs of two rows that this lane has. Rows may be
/// written pack by pack in f.
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

template <typename T, int N>
__device__ __forceinline__ RowStatistics row_statistics(const RowPacks<T, N>& x, float epsilon) {
  const float inverse_columns = 1.0f / static_cast<float>(x.columns);
  float sum = 0;
  for_packs(x, x, [&](std::int64_t, const Pack<T, N>& v, const Pack<T, N>&) {
    for (int n = 0; n < N; ++n) sum += v[n];
  });
  const float mean = sum_lanes(sum) * inverse_columns;
  float squares = 0;
  for_packs(x, x, [&](std::int64_t, const Pack<T, N>& v, const Pack<T, N>&) {
    for (int n = 0; n < N; ++n) squares += (v[n] - mean) * (v[n] - mean);
  });
  const float variance = sum_lanes(squares) * inverse_columns;
  return {mean, 1.0f / sqrtf(variance + epsilon)};
}

/// This warp's row; at least `rows` if there is none.
__device__ __forceinline__ std::int64_t row_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.y;
}

template <typename T, int N>
__global__ void __launch_bounds__(kWarp* kRowsPerBlock)
    layer_norm_kernel(const T* x, const T* gamma, const T* beta, T* y, std::int64_t rows,
                      std::int64_t columns, float epsilon) {
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  const RowPacks<T, N> xs(x + row * columns, columns);
  const RowStatistics s = row_statistics(xs, epsilon);
  for_packs(xs, xs, [&](std::int64_t c, const Pack<T, N>& v, const Pack<T, N>&) {
    const Pack<T, N> g = load<N>(gamma + c), b = load<N>(beta + c);
    Pack<T, N> result;
    for (int n = 0; n < N; ++n) result.set(n, (v[n] - s.mean) * s.inverse_deviation * g[n] + b[n]);
    store<N>(y + row * columns + c, result);
  });
}

/// With h = (x - mean) / deviation and g = dy * gamma: dx = (g - mean(g) - h * mean(g * h)) /
/// deviation.
template <typename T, int N>
__global__ void __launch_bounds__(kWarp* kRowsPerBlock)
    layer_norm_input_grad_kernel(const T* x, const T* gamma, const T* dy, T* dx, std::int64_t rows,
                                 std::int64_t columns, float epsilon) {
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  const RowPacks<T, N> xs(x + row * columns, columns), dys(dy + row * columns, columns);
  const RowStatistics s = row_statistics(xs, epsilon);
  float sum_g = 0, sum_gh = 0;
  for_packs(xs, dys, [&](std::int64_t c, const Pack<T, N>& v, const Pack<T, N>& d) {
    const Pack<T, N> gammas = load<N>(gamma + c);
    for (int n = 0; n < N; ++n) {
      const float g = d[n] * gammas[n];
      sum_g += g;
      sum_gh += g * (v[n] - s.mean);
    }
  });
  const float inverse_columns = 1.0f / columns;
  const float mean_g = sum_lanes(sum_g) * inverse_columns;
  const float mean_gh = sum_lanes(sum_gh) * inverse_columns * s.inverse_deviation;
  for_packs(xs, dys, [&](std::int64_t c, const Pack<T, N>& v, const Pack<T, N>& d) {
    const Pack<T, N> gammas = load<N>(gamma + c);
    Pack<T, N> result;
    for (int n = 0; n < N; ++n) {
      const float h = (v[n] - s.mean) * s.inverse_deviation;
      result.set(n, (d[n] * gammas[n] - mean_g - h * mean_gh) * s.inverse_deviation);
    }
    store<N>(dx + row * columns + c, result);
  });
}

template <typename T, int N>
__global__ void __launch_bounds__(kWarp* kRowsPerBlock)
    row_statistics_kernel(const T* x, std::int64_t rows, std::int64_t columns, float epsilon,
                          float* means, float* inverse_deviations) {
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  const RowStatistics s = row_statistics(RowPacks<T, N>(x + row * columns, columns), epsilon);
  if (threadIdx.x != 0) return;
  means[row] = s.mean;
  inverse_deviations[row] = s.inverse_deviation;
}

/// dy * h and dy, for dgamma and dbeta.
template <typename T>
struct LayerNormTerms {
  static constexpr int kSums = 2;
  const T *x, *dy;
  const float *means, *inverse_deviations;
  std::int64_t columns;

  template <int N>
  __device__ __forceinline__ void add(std::int64_t, std::int64_t row, std::int64_t column,
                                      float (&sums)[2][N]) const {
    const Pack<T, N> v = load<N>(x + row * columns + column),
                     d = load<N>(dy + row * columns + column);
    const float mean = means[row], inverse_deviation = inverse_deviations[row];
    for (int n = 0; n < N; ++n) {
      sums[0][n] += d[n] * ((v[n] - mean) * inverse_deviation);
      sums[1][n] += d[n];
    }
  }
};

inline LaunchShape warp_per_row(std::int64_t rows) {
  return {blocks_for(rows, kRowsPerBlock), dim3(kWarp, kRowsPerBlock)};
}

void layer_norm(StreamHandle stream, DType type, const void* x, const void* gamma, const void* beta,
                void* y, std::int64_t rows, std::int64_t columns, float epsilon) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    const bool wide =
        columns % kWide<T> == 0 && aligned(x) && aligned(gamma) && aligned(beta) && aligned(y);
    with_pack<T>(wide, [&](auto n) {
      launch(stream, "layer_norm", warp_per_row(rows), layer_norm_kernel<T, decltype(n)::value>,
             static_cast<const T*>(x), static_cast<const T*>(gamma), static_cast<const T*>(beta),
             static_cast<T*>(y), rows, columns, epsilon);
    });
  });
}

void layer_norm_input_grad(StreamHandle stream, DType type, const void* x, const void* gamma,
                           const void* dy, void* dx, std::int64_t rows, std::int64_t columns,
                           float epsilon) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    const bool wide =
        columns % kWide<T> == 0 && aligned(x) && aligned(gamma) && aligned(dy) && aligned(dx);
    with_pack<T>(wide, [&](auto n) {
      launch(stream, "layer_norm_input_grad", warp_per_row(rows),
             layer_norm_input_grad_kernel<T, decltype(n)::value>, static_cast<const T*>(x),
             static_cast<const T*>(gamma), static_cast<const T*>(dy), static_cast<T*>(dx), rows,
             columns, epsilon);
    });
  });
}

void layer_norm_weight_grad(StreamHandle stream, DType type, const void* x, const void* dy,
                            float* dgamma, float* dbeta, std::int64_t rows, std::int64_t columns,
                            float epsilon, bool accumulate_gamma, bool accumulate_beta,
                            float* workspace) {
  float *const means = workspace, *const inverse_deviations = means + rows,
               *const partial = inverse_deviations + rows;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    with_pack<T>(columns % kWide<T> == 0 && aligned(x) && aligned(dy), [&](auto n) {
      constexpr int kN = decltype(n)::value;
      launch(stream, "layer_norm_weight_grad", warp_per_row(rows), row_statistics_kernel<T, kN>,
             static_cast<const T*>(x), rows, columns, epsilon, means, inverse_deviations);
      column_sums<kN>(stream, "layer_norm_weight_grad",
                      LayerNormTerms<T>{static_cast<const T*>(x), static_cast<const T*>(dy), means,
                                        inverse_deviations, columns},
                      1, rows, columns,
                      SumOutputs<float, 2>{{dgamma, dbeta}, {accumulate_gamma, accumulate_beta}},
                      partial);
    });
  });
}

}  // namespace weft::cuda

#pragma once

// Layer norm in parts, for rows split over devices. See core/ops/split_layer_norm.cc for the
// formulas.
#include "core/cuda/internal/column_sums.cuh"
#include "core/cuda/internal/layer_norm.cuh"

namespace weft::cuda {

template <typename T, int N>
__global__ void __launch_bounds__(kWarp* kRowsPerBlock)
    layer_norm_moments_kernel(const T* x, float* moments, std::int64_t slices, std::int64_t width) {
  const std::int64_t slice = row_of_warp();
  if (slice >= slices) return;
  const RowMoments found = row_moments(RowPacks<T, N>(x + slice * width, width));
  if (threadIdx.x != 0) return;
  moments[2 * slice] = found.mean;
  moments[2 * slice + 1] = found.squares;
}

/// Runs one thread per row, in double, which is cheap for a few numbers per row.
template <typename Number>
__global__ void layer_norm_statistics_kernel(const Number* moments, Number* statistics,
                                             std::int64_t rows, std::int64_t slices, double width,
                                             double epsilon) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const Number* const of = moments + 2 * slices * row;
  double count = width, mean = of[0], squares = of[1];
  for (std::int64_t i = 1; i < slices; ++i) {
    const double difference = of[2 * i] - mean;
    const double all = count + width;
    mean += difference * width / all;
    squares += of[2 * i + 1] + difference * difference * count * width / all;
    count = all;
  }
  statistics[2 * row] = static_cast<Number>(mean);
  statistics[2 * row + 1] = static_cast<Number>(1 / sqrt(squares / count + epsilon));
}

/// Sums over a row of g and of g * (x - mean), where g = dy * gamma.
struct RowGradientSums {
  float g, centred;
};

template <typename T, int N>
__device__ __forceinline__ RowGradientSums gradient_sums(const RowPacks<T, N>& x,
                                                         const RowPacks<T, N>& dy, const T* gamma,
                                                         float mean) {
  RowGradientSums sums{0, 0};
  for_packs(x, dy, [&](std::int64_t c, const Pack<T, N>& v, const Pack<T, N>& d) {
    const Pack<T, N> gammas = load<N>(gamma + c);
    for (int n = 0; n < N; ++n) {
      const float g = d[n] * gammas[n];
      sums.g += g;
      sums.centred += g * (v[n] - mean);
    }
  });
  return {sum_lanes(sums.g), sum_lanes(sums.centred)};
}

template <typename T, int N>
__global__ void __launch_bounds__(kWarp* kRowsPerBlock)
    layer_norm_gradient_sums_kernel(const T* x, const float* statistics, const T* gamma,
                                    const T* dy, float* sums, std::int64_t rows,
                                    std::int64_t columns) {
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  const RowPacks<T, N> xs(x + row * columns, columns), dys(dy + row * columns, columns);
  const RowGradientSums found = gradient_sums(xs, dys, gamma, statistics[2 * row]);
  if (threadIdx.x != 0) return;
  sums[2 * row] = found.g;
  sums[2 * row + 1] = found.centred;
}

/// Computes dx = (g - mean(g) - h * mean(g * h)) / deviation, with h = (x - mean) / deviation and g
/// = dy * gamma. Means are over the whole row of `width` elements.
template <typename T, int N>
__global__ void __launch_bounds__(kWarp* kRowsPerBlock)
    layer_norm_apply_input_grad_kernel(const T* x, const float* statistics, const T* gamma,
                                       const T* dy, const float* row_sums, T* dx, std::int64_t rows,
                                       std::int64_t columns, std::int64_t width) {
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  const RowPacks<T, N> xs(x + row * columns, columns), dys(dy + row * columns, columns);
  const RowStatistics s{statistics[2 * row], statistics[2 * row + 1]};
  const RowGradientSums sums{row_sums[2 * row], row_sums[2 * row + 1]};
  const float inverse_width = 1.0f / width;
  const float mean_g = sums.g * inverse_width;
  const float mean_gh = sums.centred * inverse_width * s.inverse_deviation;
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

/// Terms dy * h and dy, for dgamma and dbeta.
template <typename T>
struct LayerNormTerms {
  static constexpr int kSums = 2;
  const T *x, *dy;
  const float* statistics;  ///< [rows, 2]
  std::int64_t columns;

  template <int N>
  __device__ __forceinline__ void add(std::int64_t, std::int64_t row, std::int64_t column,
                                      float (&sums)[2][N]) const {
    const Pack<T, N> v = load<N>(x + row * columns + column),
                     d = load<N>(dy + row * columns + column);
    const float mean = statistics[2 * row], inverse_deviation = statistics[2 * row + 1];
    for (int n = 0; n < N; ++n) {
      sums[0][n] += d[n] * ((v[n] - mean) * inverse_deviation);
      sums[1][n] += d[n];
    }
  }
};

void layer_norm_moments(StreamHandle stream, DType type, const void* x, float* moments,
                        std::int64_t slices, std::int64_t width) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    with_rows<T>(
        width,
        [&](auto n) {
          launch(stream, "layer_norm_moments", warp_per_row(slices),
                 layer_norm_moments_kernel<T, decltype(n)::value>, static_cast<const T*>(x),
                 moments, slices, width);
        },
        x);
  });
}

void layer_norm_statistics(StreamHandle stream, const float* moments, float* statistics,
                           std::int64_t rows, std::int64_t slices, std::int64_t width,
                           double epsilon) {
  constexpr unsigned kThreads = 128;
  launch(stream, "layer_norm_statistics", {blocks_for(rows, kThreads), kThreads},
         layer_norm_statistics_kernel<float>, moments, statistics, rows, slices,
         static_cast<double>(width), epsilon);
}

void layer_norm_apply(StreamHandle stream, DType type, const void* x, const float* statistics,
                      const void* gamma, const void* beta, void* y, std::int64_t rows,
                      std::int64_t columns) {
  layer_norm_with(stream, "layer_norm_apply", type, x, gamma, beta, y, rows, columns,
                  GivenStatistics{statistics});
}

void layer_norm_gradient_sums(StreamHandle stream, DType type, const void* x,
                              const float* statistics, const void* gamma, const void* dy,
                              float* sums, std::int64_t rows, std::int64_t columns) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    with_rows<T>(
        columns,
        [&](auto n) {
          launch(stream, "layer_norm_gradient_sums", warp_per_row(rows),
                 layer_norm_gradient_sums_kernel<T, decltype(n)::value>, static_cast<const T*>(x),
                 statistics, static_cast<const T*>(gamma), static_cast<const T*>(dy), sums, rows,
                 columns);
        },
        x, gamma, dy);
  });
}

void layer_norm_apply_input_grad(StreamHandle stream, DType type, const void* x,
                                 const float* statistics, const void* gamma, const void* dy,
                                 const float* sums, void* dx, std::int64_t rows,
                                 std::int64_t columns, std::int64_t width) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    with_rows<T>(
        columns,
        [&](auto n) {
          launch(stream, "layer_norm_apply_input_grad", warp_per_row(rows),
                 layer_norm_apply_input_grad_kernel<T, decltype(n)::value>,
                 static_cast<const T*>(x), statistics, static_cast<const T*>(gamma),
                 static_cast<const T*>(dy), sums, static_cast<T*>(dx), rows, columns, width);
        },
        x, gamma, dy, dx);
  });
}

void layer_norm_apply_weight_grad(StreamHandle stream, DType type, const void* x,
                                  const float* statistics, const void* dy,
                                  const WeightGradients& to, std::int64_t rows,
                                  std::int64_t columns, float* workspace) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    with_rows<T>(
        columns,
        [&](auto n) {
          column_sums<decltype(n)::value>(
              stream, "layer_norm_apply_weight_grad",
              LayerNormTerms<T>{static_cast<const T*>(x), static_cast<const T*>(dy), statistics,
                                columns},
              1, rows, columns,
              SumOutputs<float, 2>{{to.gamma, to.beta}, {to.add_to_gamma, to.add_to_beta}},
              workspace);
        },
        x, dy);
  });
}

}  // namespace weft::cuda

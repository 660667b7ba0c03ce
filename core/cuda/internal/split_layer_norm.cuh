#pragma once

// Layer norm in parts, for rows split over devices. See core/ops/split_layer_norm.cc for the
// formulas.
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
  layer_norm_input_grad_with(stream, "layer_norm_apply_input_grad", type, x, gamma, dy, dx, rows,
                             columns, width, GivenStatistics{statistics}, GivenSums{sums});
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
          add_weight_gradients<T, decltype(n)::value>(
              stream, "layer_norm_apply_weight_grad", static_cast<const T*>(x), statistics,
              static_cast<const T*>(dy), to, rows, columns, workspace);
        },
        x, dy);
  });
}

}  // namespace weft::cuda

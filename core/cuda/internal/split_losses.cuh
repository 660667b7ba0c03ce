#pragma once

// Cross entropy in parts, for rows of logits split over devices. See
// core/ops/split_cross_entropy.cc for the formulas.
#include "core/cuda/internal/losses.cuh"

namespace weft::cuda {

/// Returns the number of columns in [first, first + count) that are not padding.
__device__ __forceinline__ std::int64_t real_columns(std::int64_t first, std::int64_t count,
                                                     std::int64_t real) {
  const std::int64_t left = real - first;
  return left < 0 ? 0 : left < count ? left : count;
}

/// Runs one block per slice of a row.
template <typename T>
__global__ void __launch_bounds__(kLossThreads)
    cross_entropy_moments_kernel(const T* logits, const std::int32_t* targets, float* moments,
                                 LogitSlice slice, std::int64_t width, std::uint64_t fault_word,
                                 FaultWord* fault) {
  __shared__ ExponentialSum shared[kLossWarps];
  const std::int64_t number = blockIdx.x, begin = number * width;
  const std::int64_t row = begin / slice.columns;
  const std::int64_t first = slice.first + begin % slice.columns;
  const T* const x = logits + begin;
  const ExponentialSum total =
      exponential_sum_of_row(x, real_columns(first, width, slice.vocabulary_size), true, shared);
  if (threadIdx.x != 0) return;
  const std::int32_t target = targets[row];
  const bool fits = target_fits(target, slice.vocabulary_size, fault_word, fault);
  const std::int64_t at = target - first;
  moments[3 * number] = total.maximum;
  moments[3 * number + 1] = total.sum;
  moments[3 * number + 2] = fits && at >= 0 && at < width ? to_float(x[at]) : 0.0f;
}

/// Runs one thread per row, in double, which is cheap for a few numbers per row.
template <typename Number>
__global__ void cross_entropy_statistics_kernel(const Number* moments, Number* statistics,
                                                std::int64_t rows, std::int64_t slices) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const Number* const of = moments + 3 * slices * row;
  double top = of[0], sum = 0, target = 0;
  for (std::int64_t i = 1; i < slices; ++i) top = of[3 * i] > top ? of[3 * i] : top;
  for (std::int64_t i = 0; i < slices; ++i) {
    sum += of[3 * i + 1] * exp(of[3 * i] - top);
    target += of[3 * i + 2];
  }
  statistics[3 * row] = static_cast<Number>(top);
  statistics[3 * row + 1] = static_cast<Number>(sum);
  statistics[3 * row + 2] = static_cast<Number>(target);
}

template <typename Number>
__global__ void row_losses_kernel(const Number* statistics, const Number* weights, double* losses,
                                  std::int64_t rows) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const Number* const of = statistics + 3 * row;
  const double loss = static_cast<double>(of[0]) - of[2] + log(static_cast<double>(of[1]));
  losses[row] = weights != nullptr ? weights[row] * loss : loss;
}

/// Runs one block per row.
template <typename T>
__global__ void __launch_bounds__(kLossThreads)
    cross_entropy_apply_grad_kernel(const T* logits, const std::int32_t* targets,
                                    const float* statistics, const float* weights, T* dlogits,
                                    LogitSlice slice, bool wide, float scale,
                                    std::uint64_t fault_word, FaultWord* fault) {
  const std::int64_t row = blockIdx.x;
  const T* const x = logits + row * slice.columns;
  T* const dx = dlogits + row * slice.columns;
  const std::int32_t target = targets[row];
  float factor = weights != nullptr ? scale * weights[row] : scale;
  if (!target_fits(target, slice.vocabulary_size, fault_word, fault)) factor = 0;
  const float maximum = statistics[3 * row], inverse_sum = 1.0f / statistics[3 * row + 1];
  const std::int64_t at = target - slice.first;
  const std::int64_t real = real_columns(slice.first, slice.columns, slice.vocabulary_size);
  for_row(x, slice.columns, wide, [&](auto n, std::int64_t c) {
    constexpr int kN = decltype(n)::value;
    const Pack<T, kN> values = load<kN>(x + c);
    Pack<T, kN> result;
    for (int i = 0; i < kN; ++i) {
      const float probability = __expf(values[i] - maximum) * inverse_sum;
      const float gradient = factor * (c + i == at ? probability - 1.0f : probability);
      result.set(i, c + i < real ? gradient : 0.0f);
    }
    store<kN>(dx + c, result);
  });
}

void cross_entropy_moments(StreamHandle stream, DType type, const void* logits,
                           const std::int32_t* targets, float* moments, const LogitSlice& slice,
                           std::int64_t width, std::uint64_t fault_word, FaultWord* fault) {
  const std::int64_t slices = slice.rows * (slice.columns / width);
  with_type(type, [&](auto t) {
    using T = decltype(t);
    launch(stream, "cross_entropy_moments", {static_cast<unsigned>(slices), kLossThreads},
           cross_entropy_moments_kernel<T>, static_cast<const T*>(logits), targets, moments, slice,
           width, fault_word, fault);
  });
}

inline LaunchShape thread_per_row(std::int64_t rows) {
  constexpr unsigned kThreads = 128;
  return {blocks_for(rows, kThreads), kThreads};
}

void cross_entropy_statistics(StreamHandle stream, const float* moments, float* statistics,
                              std::int64_t rows, std::int64_t slices) {
  launch(stream, "cross_entropy_statistics", thread_per_row(rows),
         cross_entropy_statistics_kernel<float>, moments, statistics, rows, slices);
}

void cross_entropy_of_statistics(StreamHandle stream, const float* statistics, const float* weights,
                                 float* loss, std::int64_t rows, double scale, bool accumulate,
                                 double* workspace) {
  launch(stream, "cross_entropy_of_statistics", thread_per_row(rows), row_losses_kernel<float>,
         statistics, weights, workspace, rows);
  launch(stream, "cross_entropy_of_statistics", {1, kLossThreads}, scaled_sum_kernel<double>,
         workspace, rows, scale, loss, accumulate);
}

void cross_entropy_apply_grad(StreamHandle stream, DType type, const void* logits,
                              const std::int32_t* targets, const float* statistics,
                              const float* weights, void* dlogits, const LogitSlice& slice,
                              float scale, std::uint64_t fault_word, FaultWord* fault) {
  const bool wide = reinterpret_cast<std::uintptr_t>(logits) % 16 ==
                    reinterpret_cast<std::uintptr_t>(dlogits) % 16;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    launch(stream, "cross_entropy_apply_grad", {static_cast<unsigned>(slice.rows), kLossThreads},
           cross_entropy_apply_grad_kernel<T>, static_cast<const T*>(logits), targets, statistics,
           weights, static_cast<T*>(dlogits), slice, wide, scale, fault_word, fault);
  });
}

}  // namespace weft::cuda

#pragma once

// Gradient of a linear's input through a cross-entropy with rows split over devices. See
// core/ops/split_cross_entropy_input_grad.cc for the formulas.
#include "core/cuda/internal/split_losses.cuh"

namespace weft::cuda {

/// Runs one block per slice of a row.
template <typename T>
__global__ void __launch_bounds__(kLossThreads)
    cross_entropy_numerators_kernel(const T* logits, const float* moments, T* numerators,
                                    LogitSlice slice, std::int64_t width, bool wide) {
  const std::int64_t number = blockIdx.x, begin = number * width;
  const std::int64_t real =
      real_columns(slice.first + begin % slice.columns, width, slice.vocabulary_size);
  const float maximum = moments[3 * number];
  const T* const x = logits + begin;
  T* const y = numerators + begin;
  for_row(x, width, wide, [&](auto n, std::int64_t c) {
    constexpr int kN = decltype(n)::value;
    const Pack<T, kN> values = load<kN>(x + c);
    Pack<T, kN> result;
    for (int i = 0; i < kN; ++i) result.set(i, c + i < real ? __expf(values[i] - maximum) : 0.0f);
    store<kN>(y + c, result);
  });
}

/// Runs one block per token and slice.
template <typename T>
__global__ void __launch_bounds__(kLossThreads)
    target_rows_kernel(const T* weight, const std::int32_t* targets, T* rows, LogitSlice slice,
                       std::int64_t slice_width, std::int64_t width, bool transposed,
                       std::uint64_t fault_word, FaultWord* fault) {
  const Quotient place = divide(blockIdx.x, slice.columns / slice_width);
  const std::int32_t target = targets[place.quotient];
  const bool fits = target_fits(target, slice.vocabulary_size, fault_word, fault);
  const std::int64_t here = target - slice.first, begin = place.remainder * slice_width;
  const bool owns = fits && here >= begin && here < begin + slice_width;
  const std::int64_t first = transposed ? here * width : here,
                     step = transposed ? 1 : slice.columns;
  T* const row = rows + blockIdx.x * width;
  for (std::int64_t c = threadIdx.x; c < width; c += kLossThreads)
    row[c] = owns ? weight[first + c * step] : from_float<T>(0.0f);
}

/// Runs one block per token. Adds the slices in their order.
template <typename T>
__global__ void __launch_bounds__(kLossThreads)
    cross_entropy_combined_input_grad_kernel(const CombinedInputGrad from, const T* targets,
                                             T* dx) {
  const std::int64_t token = blockIdx.x;
  const float maximum = from.statistics[3 * token], sum = from.statistics[3 * token + 1];
  const float factor = from.weights != nullptr ? from.scale * from.weights[token] : from.scale;
  for (std::int64_t c = threadIdx.x; c < from.width; c += kLossThreads) {
    float total = 0;
    for (std::int64_t k = token * from.slices; k < (token + 1) * from.slices; ++k) {
      const float share = __expf(from.moments[3 * k] - maximum) / sum;
      const std::int64_t at = k * from.width + c;
      total += factor * (share * from.products[at] - to_float(targets[at]));
    }
    dx[token * from.width + c] = from_float<T>(total);
  }
}

void cross_entropy_numerators(StreamHandle stream, DType type, const void* logits,
                              const float* moments, void* numerators, const LogitSlice& slice,
                              std::int64_t width) {
  const std::int64_t slices = slice.rows * (slice.columns / width);
  const bool wide = reinterpret_cast<std::uintptr_t>(logits) % 16 ==
                    reinterpret_cast<std::uintptr_t>(numerators) % 16;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    launch(stream, "cross_entropy_numerators", {static_cast<unsigned>(slices), kLossThreads},
           cross_entropy_numerators_kernel<T>, static_cast<const T*>(logits), moments,
           static_cast<T*>(numerators), slice, width, wide);
  });
}

void target_rows(StreamHandle stream, DType type, const void* weight, const std::int32_t* targets,
                 void* rows, const LogitSlice& slice, std::int64_t slice_width, std::int64_t width,
                 bool transposed, std::uint64_t fault_word, FaultWord* fault) {
  const std::int64_t blocks = slice.rows * (slice.columns / slice_width);
  with_type(type, [&](auto t) {
    using T = decltype(t);
    launch(stream, "target_rows", {static_cast<unsigned>(blocks), kLossThreads},
           target_rows_kernel<T>, static_cast<const T*>(weight), targets, static_cast<T*>(rows),
           slice, slice_width, width, transposed, fault_word, fault);
  });
}

void cross_entropy_combined_input_grad(StreamHandle stream, DType type,
                                       const CombinedInputGrad& from, const void* targets,
                                       void* dx) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    launch(stream, "cross_entropy_combined_input_grad",
           {static_cast<unsigned>(from.tokens), kLossThreads},
           cross_entropy_combined_input_grad_kernel<T>, from, static_cast<const T*>(targets),
           static_cast<T*>(dx));
  });
}

}  // namespace weft::cuda

#pragma once

// Parts of a softmax, and the cross entropy, forward and gradient.
#include "core/cpu/internal/vector.h"
#include "core/cpu/internal/vector_norm.h"

namespace weft::WEFT_VECTOR_NAMESPACE {
namespace {

constexpr float kLowest = -3.0e38f;

WEFT_INLINE float max_row(const float* x, std::int64_t columns) {
  Vector top = broadcast(kLowest);
  for_vectors(columns, [&](std::int64_t c, std::int64_t n) {
    top = max(top, load_up_to(x + c, n, kLowest));
  });
  return max_lanes(top);
}

/// Computes y = exp(scale * (x - top)) and returns the sum. Lanes beyond the row count as 0: their
/// x is kLowest.
WEFT_INLINE float exp_row(const float* x, float* y, std::int64_t columns, float top, float scale) {
  return sum_row(columns, [&](std::int64_t c, std::int64_t n) {
    const Vector e = exp((load_up_to(x + c, n, kLowest) - top) * scale);
    store_up_to(y + c, e, n);
    return n == kLanes ? e : first_lanes(e, n, 0);
  });
}

/// Returns the sum of exp(x - top).
WEFT_INLINE float exp_sum(const float* x, std::int64_t columns, float top) {
  return sum_row(columns, [&](std::int64_t c, std::int64_t n) {
    const Vector e = exp(load_up_to(x + c, n, kLowest) - top);
    return n == kLanes ? e : first_lanes(e, n, 0);
  });
}

WEFT_INLINE double row_loss(float top, float target, float sum, const float* weights,
                            std::int64_t row) {
  const double loss = static_cast<double>(top) - target + __builtin_log(static_cast<double>(sum));
  return weights == nullptr ? loss : weights[row] * loss;
}

double cross_entropy(const float* x, const std::int32_t* targets, const float* weights,
                     std::int64_t rows, std::int64_t columns) {
  double total = 0;
  for (std::int64_t r = 0; r < rows; ++r, x += columns) {
    const float top = max_row(x, columns);
    total += row_loss(top, x[targets[r]], exp_sum(x, columns, top), weights, r);
  }
  return total;
}

double cross_entropy_with_grad(const float* x, const std::int32_t* targets, const float* weights,
                               float* dx, std::int64_t rows, std::int64_t columns, float scale) {
  double total = 0;
  for (std::int64_t r = 0; r < rows; ++r, x += columns, dx += columns) {
    const float top = max_row(x, columns), target = x[targets[r]];
    const float sum = exp_row(x, dx, columns, top, 1.0f);
    total += row_loss(top, target, sum, weights, r);
    const float row_scale = weights == nullptr ? scale : scale * weights[r];
    const float factor = row_scale / sum;
    for_vectors(columns, [&](std::int64_t c, std::int64_t n) {
      store_up_to(dx + c, load_up_to(dx + c, n) * factor, n);
    });
    dx[targets[r]] -= row_scale;
  }
  return total;
}

// Cross entropy with rows split over devices: core/ops/split_cross_entropy.cc.

void slice_maximum_and_sum(const float* x, std::int64_t columns, float* moments) {
  moments[0] = max_row(x, columns);
  moments[1] = exp_sum(x, columns, moments[0]);
}

void scaled_exp(const float* x, float* y, std::int64_t columns, float shift, float scale) {
  for_vectors(columns, [&](std::int64_t c, std::int64_t n) {
    store_up_to(y + c, exp(load_up_to(x + c, n, kLowest) - shift) * scale, n);
  });
}

}  // namespace
}  // namespace weft::WEFT_VECTOR_NAMESPACE

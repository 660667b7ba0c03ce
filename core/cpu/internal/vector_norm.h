#pragma once

// Layer norm, forward and both gradients. Mean and variance of a row are computed where they are
// needed: the row is in the first-level cache then.
#include "core/cpu/internal/vector.h"

namespace weft::WEFT_VECTOR_NAMESPACE {
namespace {

/// Sum over the row of f(offset, count), with two accumulators. Lanes beyond the row must come out
/// of f as 0.
template <typename F>
WEFT_INLINE float sum_row(std::int64_t columns, F f) {
  Vector sums[2] = {};
  std::int64_t c = 0;
  for (; c + 2 * kLanes <= columns; c += 2 * kLanes) {
    sums[0] += f(c, kLanes);
    sums[1] += f(c + kLanes, kLanes);
  }
  for (; c < columns; c += kLanes) sums[0] += f(c, columns - c < kLanes ? columns - c : kLanes);
  return sum_lanes(sums[0] + sums[1]);
}

struct RowStatistics {
  float mean;
  float inverse_deviation;
};

WEFT_INLINE RowStatistics row_statistics(const float* x, std::int64_t columns, float epsilon) {
  const float inverse_columns = 1.0f / columns;
  const float mean =
      sum_row(columns, [&](std::int64_t c, std::int64_t n) { return load_up_to(x + c, n); }) *
      inverse_columns;
  const float variance = inverse_columns * sum_row(columns, [&](std::int64_t c, std::int64_t n) {
                           const Vector centred = load_up_to(x + c, n, mean) - mean;
                           return centred * centred;
                         });
  return {mean, 1.0f / __builtin_sqrtf(variance + epsilon)};
}

void layer_norm(const float* x, const float* gamma, const float* beta, float* y, std::int64_t rows,
                std::int64_t columns, float epsilon) {
  for (std::int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const RowStatistics s = row_statistics(x, columns, epsilon);
    for_vectors(columns, [&](std::int64_t c, std::int64_t n) {
      const Vector normal = (load_up_to(x + c, n) - s.mean) * s.inverse_deviation;
      store_up_to(y + c, normal * load_up_to(gamma + c, n) + load_up_to(beta + c, n), n);
    });
  }
}

/// With h = (x - mean) / deviation and g = dy * gamma: dx = (g - mean(g) - h * mean(g * h)) /
/// deviation.
void layer_norm_input_grad(const float* x, const float* gamma, const float* dy, float* dx,
                           std::int64_t rows, std::int64_t columns, float epsilon) {
  const float inverse_columns = 1.0f / columns;
  for (std::int64_t r = 0; r < rows; ++r, x += columns, dy += columns, dx += columns) {
    const RowStatistics s = row_statistics(x, columns, epsilon);
    const float mean_g = inverse_columns * sum_row(columns, [&](std::int64_t c, std::int64_t n) {
                           return load_up_to(dy + c, n) * load_up_to(gamma + c, n);
                         });
    const float mean_gh =
        inverse_columns * s.inverse_deviation *
        sum_row(columns, [&](std::int64_t c, std::int64_t n) {
          return load_up_to(dy + c, n) * load_up_to(gamma + c, n) * (load_up_to(x + c, n) - s.mean);
        });
    for_vectors(columns, [&](std::int64_t c, std::int64_t n) {
      const Vector h = (load_up_to(x + c, n) - s.mean) * s.inverse_deviation;
      const Vector g = load_up_to(dy + c, n) * load_up_to(gamma + c, n);
      store_up_to(dx + c, (g - mean_g - h * mean_gh) * s.inverse_deviation, n);
    });
  }
}

/// Adds to dgamma and dbeta, four rows at a time.
void layer_norm_weight_grad(const float* x, const float* dy, float* dgamma, float* dbeta,
                            std::int64_t rows, std::int64_t columns, float epsilon) {
  constexpr std::int64_t kUnroll = 4;
  std::int64_t r = 0;
  for (; r < rows; r += kUnroll) {
    const std::int64_t count = rows - r < kUnroll ? rows - r : kUnroll;
    RowStatistics s[kUnroll];
    for (std::int64_t u = 0; u < count; ++u)
      s[u] = row_statistics(x + (r + u) * columns, columns, epsilon);
    for_vectors(columns, [&](std::int64_t c, std::int64_t n) {
      Vector gamma_sum = load_up_to(dgamma + c, n), beta_sum = load_up_to(dbeta + c, n);
      for (std::int64_t u = 0; u < count; ++u) {
        const Vector g = load_up_to(dy + (r + u) * columns + c, n);
        gamma_sum +=
            g * ((load_up_to(x + (r + u) * columns + c, n) - s[u].mean) * s[u].inverse_deviation);
        beta_sum += g;
      }
      store_up_to(dgamma + c, gamma_sum, n);
      store_up_to(dbeta + c, beta_sum, n);
    });
  }
}

}  // namespace
}  // namespace weft::WEFT_VECTOR_NAMESPACE

#pragma once

// Layer norm, forward and both gradients. Mean and variance of a row are computed just before use,
// so that the row is in the L1 cache.
#include "core/cpu/internal/vector.h"

namespace weft::WEFT_VECTOR_NAMESPACE {
namespace {

/// Returns the sum over a row of f(offset, count), using two accumulators. f must return 0 in lanes
/// beyond the row.
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

WEFT_INLINE void apply_row(const float* x, const float* gamma, const float* beta, float* y,
                           std::int64_t columns, RowStatistics s) {
  for_vectors(columns, [&](std::int64_t c, std::int64_t n) {
    const Vector normal = (load_up_to(x + c, n) - s.mean) * s.inverse_deviation;
    store_up_to(y + c, normal * load_up_to(gamma + c, n) + load_up_to(beta + c, n), n);
  });
}

void layer_norm(const float* x, const float* gamma, const float* beta, float* y, std::int64_t rows,
                std::int64_t columns, float epsilon) {
  for (std::int64_t r = 0; r < rows; ++r, x += columns, y += columns)
    apply_row(x, gamma, beta, y, columns, row_statistics(x, columns, epsilon));
}

/// Sums over a row of g and of g * (x - mean), where g = dy * gamma.
struct RowGradientSums {
  float g;
  float centred;
};

WEFT_INLINE RowGradientSums gradient_sums(const float* x, const float* gamma, const float* dy,
                                          std::int64_t columns, float mean) {
  const float g = sum_row(columns, [&](std::int64_t c, std::int64_t n) {
    return load_up_to(dy + c, n) * load_up_to(gamma + c, n);
  });
  const float centred = sum_row(columns, [&](std::int64_t c, std::int64_t n) {
    return load_up_to(dy + c, n) * load_up_to(gamma + c, n) * (load_up_to(x + c, n) - mean);
  });
  return {g, centred};
}

/// Computes dx = (g - mean(g) - h * mean(g * h)) / deviation, with h = (x - mean) / deviation.
/// Means are over the whole row of `width` elements.
WEFT_INLINE void apply_input_grad_row(const float* x, const float* gamma, const float* dy,
                                      float* dx, std::int64_t columns, float inverse_width,
                                      RowStatistics s, RowGradientSums sums) {
  const float mean_g = inverse_width * sums.g;
  const float mean_gh = inverse_width * s.inverse_deviation * sums.centred;
  for_vectors(columns, [&](std::int64_t c, std::int64_t n) {
    const Vector h = (load_up_to(x + c, n) - s.mean) * s.inverse_deviation;
    const Vector g = load_up_to(dy + c, n) * load_up_to(gamma + c, n);
    store_up_to(dx + c, (g - mean_g - h * mean_gh) * s.inverse_deviation, n);
  });
}

void layer_norm_input_grad(const float* x, const float* gamma, const float* dy, float* dx,
                           std::int64_t rows, std::int64_t columns, float epsilon) {
  const float inverse_columns = 1.0f / columns;
  for (std::int64_t r = 0; r < rows; ++r, x += columns, dy += columns, dx += columns) {
    const RowStatistics s = row_statistics(x, columns, epsilon);
    apply_input_grad_row(x, gamma, dy, dx, columns, inverse_columns, s,
                         gradient_sums(x, gamma, dy, columns, s.mean));
  }
}

/// Adds to dgamma and dbeta, four rows at a time. `statistics` returns the statistics of a row.
template <typename Statistics>
WEFT_INLINE void add_weight_gradients(const float* x, const float* dy, float* dgamma, float* dbeta,
                                      std::int64_t rows, std::int64_t columns,
                                      Statistics statistics) {
  constexpr std::int64_t kUnroll = 4;
  for (std::int64_t r = 0; r < rows; r += kUnroll) {
    const std::int64_t count = rows - r < kUnroll ? rows - r : kUnroll;
    RowStatistics s[kUnroll];
    for (std::int64_t u = 0; u < count; ++u) s[u] = statistics(r + u);
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

void layer_norm_weight_grad(const float* x, const float* dy, float* dgamma, float* dbeta,
                            std::int64_t rows, std::int64_t columns, float epsilon) {
  add_weight_gradients(x, dy, dgamma, dbeta, rows, columns, [&](std::int64_t r) {
    return row_statistics(x + r * columns, columns, epsilon);
  });
}

// Layer norm with rows split over devices: core/ops/split_layer_norm.cc.

WEFT_INLINE RowStatistics statistics_of(const float* statistics, std::int64_t row) {
  return {statistics[2 * row], statistics[2 * row + 1]};
}

void layer_norm_moments(const float* x, float* moments, std::int64_t slices, std::int64_t width) {
  const float inverse_width = 1.0f / width;
  for (std::int64_t i = 0; i < slices; ++i, x += width, moments += 2) {
    const float mean =
        sum_row(width, [&](std::int64_t c, std::int64_t n) { return load_up_to(x + c, n); }) *
        inverse_width;
    moments[0] = mean;
    moments[1] = sum_row(width, [&](std::int64_t c, std::int64_t n) {
      const Vector centred = load_up_to(x + c, n, mean) - mean;
      return centred * centred;
    });
  }
}

void layer_norm_apply(const float* x, const float* statistics, const float* gamma,
                      const float* beta, float* y, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r, x += columns, y += columns)
    apply_row(x, gamma, beta, y, columns, statistics_of(statistics, r));
}

void layer_norm_gradient_sums(const float* x, const float* statistics, const float* gamma,
                              const float* dy, float* sums, std::int64_t rows,
                              std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r, x += columns, dy += columns) {
    const RowGradientSums row =
        gradient_sums(x, gamma, dy, columns, statistics_of(statistics, r).mean);
    sums[2 * r] = row.g;
    sums[2 * r + 1] = row.centred;
  }
}

void layer_norm_apply_input_grad(const float* x, const float* statistics, const float* gamma,
                                 const float* dy, const float* sums, float* dx, std::int64_t rows,
                                 std::int64_t columns, std::int64_t width) {
  const float inverse_width = 1.0f / width;
  for (std::int64_t r = 0; r < rows; ++r, x += columns, dy += columns, dx += columns) {
    apply_input_grad_row(x, gamma, dy, dx, columns, inverse_width, statistics_of(statistics, r),
                         {sums[2 * r], sums[2 * r + 1]});
  }
}

void layer_norm_apply_weight_grad(const float* x, const float* statistics, const float* dy,
                                  float* dgamma, float* dbeta, std::int64_t rows,
                                  std::int64_t columns) {
  add_weight_gradients(x, dy, dgamma, dbeta, rows, columns,
                       [&](std::int64_t r) { return statistics_of(statistics, r); });
}

}  // namespace
}  // namespace weft::WEFT_VECTOR_NAMESPACE

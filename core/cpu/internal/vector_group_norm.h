#pragma once

// Group norm of one sample x[positions, channels], forward and both gradients. Channels are
// contiguous, so sums over positions are computed per channel, in vectors of channels, and then
// added over the channels of a group:
//
//              channels                     workspace rows of `channels` floats: per channel
//             +---------------+               0  mean of its group
//   positions |  |  |  |  |   |  -> sums ->   1  1 / deviation of its group
//             |  v  v  v  v   |               2, 3, 4  sums, and coefficients computed from them
//             +---------------+
//
// Sums over many positions are computed in blocks, so that rounding errors do not grow with the
// picture.
#include "core/cpu/internal/vector.h"
#include "core/cpu/internal/vector_kernels.h"

namespace weft::WEFT_VECTOR_NAMESPACE {
namespace {

constexpr std::int64_t kPositionBlock = 128;

/// Computes sums[c] = sum over positions p of f(p * channels + c, c, count). f returns a vector of
/// `count` channels from c on.
template <typename F>
WEFT_INLINE void sum_positions_of(std::int64_t positions, std::int64_t channels, float* sums, F f) {
  for_vectors(channels,
              [&](std::int64_t c, std::int64_t n) { store_up_to(sums + c, Vector{}, n); });
  for (std::int64_t first = 0; first < positions; first += kPositionBlock) {
    const std::int64_t last = min_of(first + kPositionBlock, positions);
    for_vectors(channels, [&](std::int64_t c, std::int64_t n) {
      Vector even{}, odd{};
      std::int64_t p = first;
      for (; p + 2 <= last; p += 2) {
        even += f(p * channels + c, c, n);
        odd += f((p + 1) * channels + c, c, n);
      }
      if (p < last) even += f(p * channels + c, c, n);
      store_up_to(sums + c, load_up_to(sums + c, n) + (even + odd), n);
    });
  }
}

/// Sets of[c] = finish(sum over the group's channels of in[c]) for each group.
template <typename Finish>
WEFT_INLINE void spread_over_groups(const GroupNormSample& s, const float* in, float* of,
                                    Finish finish) {
  for (std::int64_t begin = 0; begin < s.channels; begin += s.group_size) {
    float sum = 0;
    for (std::int64_t c = begin; c < begin + s.group_size; ++c) sum += in[c];
    const float value = finish(sum);
    for (std::int64_t c = begin; c < begin + s.group_size; ++c) of[c] = value;
  }
}

WEFT_INLINE float inverse_count(const GroupNormSample& s) {
  return 1.0f / (s.positions * static_cast<float>(s.group_size));
}

/// Fills rows 0 and 1 of the workspace.
void group_statistics(const GroupNormSample& s) {
  float *mean = s.workspace, *inverse = mean + s.channels, *sums = inverse + s.channels;
  const float inverse_n = inverse_count(s);
  sum_positions_of(
      s.positions, s.channels, sums,
      [&](std::int64_t at, std::int64_t, std::int64_t n) { return load_up_to(s.x + at, n); });
  spread_over_groups(s, sums, mean, [&](float sum) { return sum * inverse_n; });
  sum_positions_of(s.positions, s.channels, sums,
                   [&](std::int64_t at, std::int64_t c, std::int64_t n) {
                     const Vector centred = load_up_to(s.x + at, n) - load_up_to(mean + c, n);
                     return centred * centred;
                   });
  spread_over_groups(s, sums, inverse, [&](float sum) {
    return 1.0f / __builtin_sqrtf(sum * inverse_n + s.epsilon);
  });
}

/// Fills rows 2 and 3 of the workspace: sums over positions of dy, and of dy * (x - mean).
void gradient_sums(const GroupNormSample& s, const float* dy) {
  float *mean = s.workspace, *sum_dy = mean + 2 * s.channels, *sum_product = sum_dy + s.channels;
  sum_positions_of(
      s.positions, s.channels, sum_dy,
      [&](std::int64_t at, std::int64_t, std::int64_t n) { return load_up_to(dy + at, n); });
  sum_positions_of(
      s.positions, s.channels, sum_product, [&](std::int64_t at, std::int64_t c, std::int64_t n) {
        return load_up_to(dy + at, n) * (load_up_to(s.x + at, n) - load_up_to(mean + c, n));
      });
}

void group_norm(const GroupNormSample& s, const float* gamma, const float* beta, float* y) {
  group_statistics(s);
  float *mean = s.workspace, *factor = mean + s.channels;  // 1 / deviation, then times gamma
  for (std::int64_t c = 0; c < s.channels; ++c) factor[c] *= gamma[c];
  for (std::int64_t p = 0; p < s.positions; ++p) {
    for_vectors(s.channels, [&](std::int64_t c, std::int64_t n) {
      const Vector centred = load_up_to(s.x + p * s.channels + c, n) - load_up_to(mean + c, n);
      store_up_to(y + p * s.channels + c,
                  centred * load_up_to(factor + c, n) + load_up_to(beta + c, n), n);
    });
  }
}

/// Computes dx = (g - mean(g) - h * mean(g * h)) / deviation, with h = (x - mean) / deviation and g
/// = dy * gamma.
void group_norm_input_grad(const GroupNormSample& s, const float* gamma, const float* dy,
                           float* dx) {
  group_statistics(s);
  gradient_sums(s, dy);
  float *mean = s.workspace, *inverse = mean + s.channels, *sum_g = inverse + s.channels,
        *sum_gh = sum_g + s.channels, *factor = sum_gh + s.channels;
  const float inverse_n = inverse_count(s);
  for (std::int64_t c = 0; c < s.channels; ++c) {
    sum_g[c] *= gamma[c];
    sum_gh[c] *= gamma[c] * inverse[c];
    factor[c] = gamma[c] * inverse[c];
  }
  // dx = dy * factor - constant - (x - mean) * slope
  spread_over_groups(s, sum_g, sum_g, [&](float sum) { return sum * inverse_n; });
  spread_over_groups(s, sum_gh, sum_gh, [&](float sum) { return sum * inverse_n; });
  for (std::int64_t c = 0; c < s.channels; ++c) {
    sum_g[c] *= inverse[c];
    sum_gh[c] *= inverse[c] * inverse[c];
  }
  for (std::int64_t p = 0; p < s.positions; ++p) {
    for_vectors(s.channels, [&](std::int64_t c, std::int64_t n) {
      const std::int64_t at = p * s.channels + c;
      const Vector centred = load_up_to(s.x + at, n) - load_up_to(mean + c, n);
      const Vector value = load_up_to(dy + at, n) * load_up_to(factor + c, n) -
                           load_up_to(sum_g + c, n) - centred * load_up_to(sum_gh + c, n);
      store_up_to(dx + at, value, n);
    });
  }
}

void group_norm_weight_grad(const GroupNormSample& s, const float* dy, float* dgamma,
                            float* dbeta) {
  group_statistics(s);
  gradient_sums(s, dy);
  const float *inverse = s.workspace + s.channels, *sum_dy = inverse + s.channels,
              *sum_product = sum_dy + s.channels;
  for (std::int64_t c = 0; c < s.channels; ++c) {
    dgamma[c] += sum_product[c] * inverse[c];
    dbeta[c] += sum_dy[c];
  }
}

}  // namespace
}  // namespace weft::WEFT_VECTOR_NAMESPACE

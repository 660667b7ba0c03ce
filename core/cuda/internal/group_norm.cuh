#pragma once

// Group norm of x[batch, positions, channels]. Channels are contiguous, so sums over positions are
// computed per channel (column_sums.cuh). One warp per sample and group then combines them. Work
// space, in rows of batch * channels floats:
//
//   0     mean of the group       4     factor
//   1     1 / deviation           5     constant
//   2, 3  sums over positions     6     slope of the gradient
//                                 7 on  partial sums
//
// Squares are computed of differences from the channel's first element, so that a large mean costs
// no precision. See core/ops/group_norm.cc for the formulas.
#include "core/cuda/internal/column_sums.cuh"
#include "core/cuda/internal/pack.cuh"

namespace weft::cuda {

inline constexpr int kGroupThreads = 256;

struct GroupRows {
  float *mean, *inverse, *sum0, *sum1, *factor, *constant, *slope, *partial;

  GroupRows(const GroupNorm& shape, float* workspace) {
    const std::int64_t row = shape.batch * shape.channels;
    mean = workspace;
    inverse = mean + row;
    sum0 = inverse + row;
    sum1 = sum0 + row;
    factor = sum1 + row;
    constant = factor + row;
    slope = constant + row;
    partial = slope + 2 * row;  // skips one row, so that partial sums begin at an even address
  }
};

/// Terms x - first and its square, where `first` is the channel's element at position 0.
template <typename T>
struct CentredTerms {
  static constexpr int kSums = 2;
  const T* x;
  std::int64_t positions, channels;

  template <int N>
  __device__ __forceinline__ void add(std::int64_t batch, std::int64_t position,
                                      std::int64_t channel, float (&sums)[2][N]) const {
    const T* const sample = x + batch * positions * channels + channel;
    const Pack<T, N> first = load<N>(sample), v = load<N>(sample + position * channels);
    for (int n = 0; n < N; ++n) {
      const float difference = v[n] - first[n];
      sums[0][n] += difference;
      sums[1][n] += difference * difference;
    }
  }
};

/// Terms dy and dy * (x - mean).
template <typename T>
struct GroupGradientTerms {
  static constexpr int kSums = 2;
  const T *x, *dy;
  const float* mean;
  std::int64_t positions, channels;

  template <int N>
  __device__ __forceinline__ void add(std::int64_t batch, std::int64_t position,
                                      std::int64_t channel, float (&sums)[2][N]) const {
    const std::int64_t at = (batch * positions + position) * channels + channel;
    const Pack<T, N> v = load<N>(x + at), d = load<N>(dy + at);
    for (int n = 0; n < N; ++n) {
      sums[0][n] += d[n];
      sums[1][n] += d[n] * (v[n] - mean[batch * channels + channel + n]);
    }
  }
};

/// Returns the first channel of this warp's sample and group, as an index in rows of batch *
/// channels. -1 if there is none.
__device__ __forceinline__ std::int64_t first_channel_of_warp(const GroupNorm& shape) {
  const std::int64_t group =
      static_cast<std::int64_t>(blockIdx.x) * (kGroupThreads / kWarp) + threadIdx.y;
  return group < shape.batch * (shape.channels / shape.group_size) ? group * shape.group_size : -1;
}

/// Computes mean and 1 / deviation of each group from the channel sums of CentredTerms.
template <typename T>
__global__ void group_statistics_kernel(const T* x, GroupNorm shape, GroupRows rows) {
  const std::int64_t begin = first_channel_of_warp(shape);
  if (begin < 0) return;
  const double positions = shape.positions;
  const std::int64_t batch = begin / shape.channels, channel = begin % shape.channels;
  const T* const first = x + batch * shape.positions * shape.channels + channel;
  double sum = 0;
  for (std::int64_t c = threadIdx.x; c < shape.group_size; c += kWarp)
    sum += to_float(first[c]) + rows.sum0[begin + c] / positions;
  const double mean = sum_lanes(sum) / shape.group_size;
  double squares = 0;  // sum of squares within channels and between them
  for (std::int64_t c = threadIdx.x; c < shape.group_size; c += kWarp) {
    const double of_differences = rows.sum0[begin + c],
                 channel_mean = to_float(first[c]) + of_differences / positions;
    squares += rows.sum1[begin + c] - of_differences * of_differences / positions +
               positions * (channel_mean - mean) * (channel_mean - mean);
  }
  const double variance = sum_lanes(squares) / (positions * shape.group_size);
  const auto inverse =
      static_cast<float>(1.0 / sqrt((variance > 0 ? variance : 0) + shape.epsilon));
  for (std::int64_t c = threadIdx.x; c < shape.group_size; c += kWarp) {
    rows.mean[begin + c] = static_cast<float>(mean);
    rows.inverse[begin + c] = inverse;
  }
}

/// Computes the coefficients of dx = dy * factor - constant - (x - mean) * slope from the channel
/// sums of GroupGradientTerms.
template <typename T>
__global__ void group_coefficients_kernel(const T* gamma, GroupNorm shape, GroupRows rows) {
  const std::int64_t begin = first_channel_of_warp(shape);
  if (begin < 0) return;
  const std::int64_t channel = begin % shape.channels;
  const float inverse = rows.inverse[begin];
  float sum_g = 0, sum_gh = 0;
  for (std::int64_t c = threadIdx.x; c < shape.group_size; c += kWarp) {
    const float g = to_float(gamma[channel + c]);
    sum_g += g * rows.sum0[begin + c];
    sum_gh += g * inverse * rows.sum1[begin + c];
  }
  const float inverse_count = 1.0f / (shape.positions * static_cast<float>(shape.group_size));
  const float constant = sum_lanes(sum_g) * inverse_count * inverse;
  const float slope = sum_lanes(sum_gh) * inverse_count * inverse * inverse;
  for (std::int64_t c = threadIdx.x; c < shape.group_size; c += kWarp) {
    rows.factor[begin + c] = to_float(gamma[channel + c]) * inverse;
    rows.constant[begin + c] = constant;
    rows.slope[begin + c] = slope;
  }
}

/// Computes the index of this thread's pack, its channel, and the index of its sample's channel in
/// rows of batch * channels. Returns false if there is none.
template <int N>
__device__ __forceinline__ bool group_pack(const GroupNorm& shape, std::int64_t& at,
                                           std::int64_t& channel, std::int64_t& in_rows) {
  at = (static_cast<std::int64_t>(blockIdx.x) * kGroupThreads + threadIdx.x) * N;
  const std::int64_t sample = shape.positions * shape.channels;
  if (at >= shape.batch * sample) return false;
  channel = divide(at, shape.channels).remainder;
  in_rows = divide(at, sample).quotient * shape.channels + channel;
  return true;
}

template <typename T, int N>
__global__ void group_norm_kernel(const T* x, const T* gamma, const T* beta, T* y, GroupNorm shape,
                                  GroupRows rows) {
  std::int64_t at, channel, in_rows;
  if (!group_pack<N>(shape, at, channel, in_rows)) return;
  const Pack<T, N> v = load<N>(x + at), gammas = load<N>(gamma + channel),
                   betas = load<N>(beta + channel);
  const Pack<float, N> means = load<N>(rows.mean + in_rows),
                       inverses = load<N>(rows.inverse + in_rows);
  Pack<T, N> result;
  for (int n = 0; n < N; ++n)
    result.set(n, (v[n] - means[n]) * (inverses[n] * gammas[n]) + betas[n]);
  store<N>(y + at, result);
}

template <typename T, int N>
__global__ void group_norm_input_grad_kernel(const T* x, const T* dy, T* dx, GroupNorm shape,
                                             GroupRows rows) {
  std::int64_t at, channel, in_rows;
  if (!group_pack<N>(shape, at, channel, in_rows)) return;
  const Pack<T, N> v = load<N>(x + at), d = load<N>(dy + at);
  const Pack<float, N> means = load<N>(rows.mean + in_rows),
                       factors = load<N>(rows.factor + in_rows),
                       constants = load<N>(rows.constant + in_rows),
                       slopes = load<N>(rows.slope + in_rows);
  Pack<T, N> result;
  for (int n = 0; n < N; ++n)
    result.set(n, d[n] * factors[n] - constants[n] - (v[n] - means[n]) * slopes[n]);
  store<N>(dx + at, result);
}

/// Sums over samples, in order, with one thread per channel. A template, like all kernels here, so
/// that several sources may include this file.
template <typename Row>
__global__ void group_norm_weight_grad_kernel(GroupNorm shape, GroupRows rows, Row* dgamma,
                                              Row* dbeta, bool accumulate_gamma,
                                              bool accumulate_beta) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * kGroupThreads + threadIdx.x;
  if (channel >= shape.channels) return;
  float gamma_sum = accumulate_gamma ? dgamma[channel] : 0.0f,
        beta_sum = accumulate_beta ? dbeta[channel] : 0.0f;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const std::int64_t at = b * shape.channels + channel;
    gamma_sum += rows.sum1[at] * rows.inverse[at];
    beta_sum += rows.sum0[at];
  }
  dgamma[channel] = gamma_sum;
  dbeta[channel] = beta_sum;
}

inline LaunchShape warp_per_group(const GroupNorm& shape) {
  constexpr unsigned kGroups = kGroupThreads / kWarp;
  return {blocks_for(shape.batch * (shape.channels / shape.group_size), kGroups),
          dim3(kWarp, kGroups)};
}

template <int N>
LaunchShape thread_per_pack(const GroupNorm& shape) {
  return {blocks_for(shape.batch * shape.positions * shape.channels, kGroupThreads * N),
          kGroupThreads};
}

template <int N, typename T>
void group_statistics(StreamHandle stream, const char* name, const GroupNorm& shape, const T* x,
                      const GroupRows& rows) {
  column_sums<N>(stream, name, CentredTerms<T>{x, shape.positions, shape.channels}, shape.batch,
                 shape.positions, shape.channels,
                 SumOutputs<float, 2>{{rows.sum0, rows.sum1}, {false, false}}, rows.partial);
  launch(stream, name, warp_per_group(shape), group_statistics_kernel<T>, x, shape, rows);
}

template <int N, typename T>
void group_gradient_sums(StreamHandle stream, const char* name, const GroupNorm& shape, const T* x,
                         const T* dy, const GroupRows& rows) {
  group_statistics<N>(stream, name, shape, x, rows);
  column_sums<N>(stream, name,
                 GroupGradientTerms<T>{x, dy, rows.mean, shape.positions, shape.channels},
                 shape.batch, shape.positions, shape.channels,
                 SumOutputs<float, 2>{{rows.sum0, rows.sum1}, {false, false}}, rows.partial);
}

/// Calls f(T(), PackSize<N>()) with the pack size that alignment and channels permit.
template <typename F>
void with_group_pack(DType type, const GroupNorm& shape, bool is_aligned, F f) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    with_pack<T>(is_aligned && shape.channels % kPackElements<T> == 0, [&](auto n) { f(t, n); });
  });
}

void group_norm(StreamHandle stream, DType type, const GroupNorm& shape, const void* x,
                const void* gamma, const void* beta, void* y, float* workspace) {
  const GroupRows rows(shape, workspace);
  with_group_pack(
      type, shape, aligned(x) && aligned(gamma) && aligned(beta) && aligned(y),
      [&](auto t, auto n) {
        using T = decltype(t);
        constexpr int kN = decltype(n)::value;
        group_statistics<kN>(stream, "group_norm", shape, static_cast<const T*>(x), rows);
        launch(stream, "group_norm", thread_per_pack<kN>(shape), group_norm_kernel<T, kN>,
               static_cast<const T*>(x), static_cast<const T*>(gamma), static_cast<const T*>(beta),
               static_cast<T*>(y), shape, rows);
      });
}

void group_norm_input_grad(StreamHandle stream, DType type, const GroupNorm& shape, const void* x,
                           const void* gamma, const void* dy, void* dx, float* workspace) {
  const GroupRows rows(shape, workspace);
  with_group_pack(type, shape, aligned(x) && aligned(dy) && aligned(dx), [&](auto t, auto n) {
    using T = decltype(t);
    constexpr int kN = decltype(n)::value;
    const char* const name = "group_norm_input_grad";
    group_gradient_sums<kN>(stream, name, shape, static_cast<const T*>(x),
                            static_cast<const T*>(dy), rows);
    launch(stream, name, warp_per_group(shape), group_coefficients_kernel<T>,
           static_cast<const T*>(gamma), shape, rows);
    launch(stream, name, thread_per_pack<kN>(shape), group_norm_input_grad_kernel<T, kN>,
           static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(dx), shape, rows);
  });
}

void group_norm_weight_grad(StreamHandle stream, DType type, const GroupNorm& shape, const void* x,
                            const void* dy, float* dgamma, float* dbeta, bool accumulate_gamma,
                            bool accumulate_beta, float* workspace) {
  const GroupRows rows(shape, workspace);
  with_group_pack(type, shape, aligned(x) && aligned(dy), [&](auto t, auto n) {
    using T = decltype(t);
    const char* const name = "group_norm_weight_grad";
    group_gradient_sums<decltype(n)::value>(stream, name, shape, static_cast<const T*>(x),
                                            static_cast<const T*>(dy), rows);
    launch(stream, name, {blocks_for(shape.channels, kGroupThreads), kGroupThreads},
           group_norm_weight_grad_kernel<float>, shape, rows, dgamma, dbeta, accumulate_gamma,
           accumulate_beta);
  });
}

}  // namespace weft::cuda

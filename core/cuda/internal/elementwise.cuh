#pragma once

// Element-wise ops: activations and their gradients, sums, products, conversions. One thread per
// pack of 16 bytes; the last, partial pack is processed element by element. See
// core/ops/activation.cc for the formulas.
#include "core/base/check.h"
#include "core/cuda/internal/pack.cuh"

namespace weft::cuda {

inline constexpr int kMapThreads = 256;

__device__ __forceinline__ float logistic(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }

// Constants of gelu(x) = x * logistic(kTwoC (x + kCubic x^3)), which equals the tanh form.
inline constexpr float kTwoC = 1.5957691216057308f;
inline constexpr float kCubic = 0.044715f;
__device__ __forceinline__ float gelu_logistic(float x) {
  return logistic(x * (kTwoC + kTwoC * kCubic * (x * x)));
}

template <OpKind F>
__device__ __forceinline__ float apply(float a, float b, float parameter) {
  if constexpr (F == OpKind::kAdd) return a + b;
  if constexpr (F == OpKind::kMultiply) return a * b;
  if constexpr (F == OpKind::kGelu) return a * gelu_logistic(a);
  if constexpr (F == OpKind::kGeluGrad) {
    const float s = gelu_logistic(a);
    return b * (s + a * s * (1.0f - s) * (kTwoC + 3 * kTwoC * kCubic * (a * a)));
  }
  if constexpr (F == OpKind::kSilu) return a * logistic(a);
  if constexpr (F == OpKind::kSiluGrad) {
    const float s = logistic(a);
    return b * (s + a * s * (1.0f - s));
  }
  if constexpr (F == OpKind::kSigmoid) return logistic(a);
  if constexpr (F == OpKind::kSigmoidGrad) {
    const float s = logistic(a);
    return b * (s * (1.0f - s));
  }
  if constexpr (F == OpKind::kSquaredErrorGrad) return parameter * (a - b);
  return a;
}

template <OpKind F>
inline constexpr bool kHasSecondInput =
    F == OpKind::kAdd || F == OpKind::kMultiply || F == OpKind::kGeluGrad ||
    F == OpKind::kSiluGrad || F == OpKind::kSigmoidGrad || F == OpKind::kSquaredErrorGrad;

template <OpKind F, typename In, typename Second, typename Out, int N>
__device__ __forceinline__ void map_at(const In* a, const Second* b, Out* y, std::int64_t i,
                                       float parameter, bool accumulate) {
  const Pack<In, N> as = load<N>(a + i);
  Pack<Second, N> bs{};
  if constexpr (kHasSecondInput<F>) bs = load<N>(b + i);
  Pack<Out, N> ys{};
  if (accumulate) ys = load<N>(y + i);
  for (int n = 0; n < N; ++n) {
    const float value = apply<F>(as[n], kHasSecondInput<F> ? bs[n] : 0.0f, parameter);
    ys.set(n, accumulate ? ys[n] + value : value);
  }
  store<N>(y + i, ys);
}

template <OpKind F, typename In, typename Second, typename Out, int N>
__global__ void map_kernel(const In* a, const Second* b, Out* y, std::int64_t size, float parameter,
                           bool accumulate) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * kMapThreads + threadIdx.x) * N;
  if (first + N <= size) {
    map_at<F, In, Second, Out, N>(a, b, y, first, parameter, accumulate);
  } else {
    for (std::int64_t i = first; i < size; ++i)
      map_at<F, In, Second, Out, 1>(a, b, y, i, parameter, accumulate);
  }
}

template <OpKind F, typename In, typename Second, typename Out>
void launch_map(StreamHandle stream, const void* a, const void* b, void* y, std::int64_t size,
                float parameter, bool accumulate) {
  const char* const name = to_string(F).data();  // a string literal
  const bool wide = aligned(a) && aligned(b) && aligned(y);
  with_pack<In>(wide, [&](auto n) {
    constexpr int kN = decltype(n)::value;
    launch(stream, name, {blocks_for(size, kMapThreads * kN), kMapThreads},
           map_kernel<F, In, Second, Out, kN>, static_cast<const In*>(a),
           static_cast<const Second*>(b), static_cast<Out*>(y), size, parameter, accumulate);
  });
}

void launch_elementwise(StreamHandle stream, OpKind f, DType type, const void* a, const void* b,
                        void* y, std::int64_t size, float parameter, bool accumulate) {
  if (f == OpKind::kToBF16) {
    return launch_map<OpKind::kToBF16, float, float, Bf16>(stream, a, nullptr, y, size, 0,
                                                           accumulate);
  }
  if (f == OpKind::kToF32) {
    return launch_map<OpKind::kToF32, Bf16, Bf16, float>(stream, a, nullptr, y, size, 0,
                                                         accumulate);
  }
  with_type(type, [&](auto t) {
    using T = decltype(t);
    const auto run = [&]<OpKind F>() {
      launch_map<F, T, T, T>(stream, a, b, y, size, parameter, accumulate);
    };
    switch (f) {
      case OpKind::kAdd: return run.template operator()<OpKind::kAdd>();
      case OpKind::kMultiply: return run.template operator()<OpKind::kMultiply>();
      case OpKind::kGelu: return run.template operator()<OpKind::kGelu>();
      case OpKind::kGeluGrad: return run.template operator()<OpKind::kGeluGrad>();
      case OpKind::kSilu: return run.template operator()<OpKind::kSilu>();
      case OpKind::kSiluGrad: return run.template operator()<OpKind::kSiluGrad>();
      case OpKind::kSigmoid: return run.template operator()<OpKind::kSigmoid>();
      case OpKind::kSigmoidGrad: return run.template operator()<OpKind::kSigmoidGrad>();
      case OpKind::kSquaredErrorGrad:  // the target is f32 for both types of x
        return launch_map<OpKind::kSquaredErrorGrad, T, float, T>(stream, a, b, y, size, parameter,
                                                                  accumulate);
      default: WEFT_CHECK(false, "{} is not elementwise", to_string(f));
    }
  });
}

template <typename T, int N>
__global__ void add_broadcast_kernel(const T* a, const T* b, T* y, std::int64_t size,
                                     std::int64_t sample, std::int64_t columns, bool accumulate) {
  const std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kMapThreads + threadIdx.x) * N;
  if (i >= size) return;
  const Pack<T, N> as = load<N>(a + i), bs = load<N>(b + divide(i, sample).quotient * columns +
                                                     divide(i, columns).remainder);
  Pack<T, N> ys{};
  if (accumulate) ys = load<N>(y + i);
  for (int n = 0; n < N; ++n) ys.set(n, (accumulate ? ys[n] : 0.0f) + (as[n] + bs[n]));
  store<N>(y + i, ys);
}

void add_broadcast(StreamHandle stream, DType type, const void* a, const void* b, void* y,
                   std::int64_t size, std::int64_t sample, std::int64_t columns, bool accumulate) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    const bool wide = columns % kPackElements<T> == 0 && aligned(a) && aligned(b) && aligned(y);
    with_pack<T>(wide, [&](auto n) {
      constexpr int kN = decltype(n)::value;
      launch(stream, "add_broadcast", {blocks_for(size, kMapThreads * kN), kMapThreads},
             add_broadcast_kernel<T, kN>, static_cast<const T*>(a), static_cast<const T*>(b),
             static_cast<T*>(y), size, sample, columns, accumulate);
    });
  });
}

}  // namespace weft::cuda

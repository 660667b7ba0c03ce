#pragma once

// Vectors of floats (GCC's vector extension), as wide as the including source sets, and functions
// on them for kernels. All functions are static and forced inline: the linker must never merge code
// compiled for different instruction sets.
#include <cstdint>
#include <cstring>
#include <utility>

#ifndef WEFT_VECTOR_NAMESPACE
#define WEFT_VECTOR_NAMESPACE baseline
#define WEFT_VECTOR_FLOATS 4
#endif

namespace weft::WEFT_VECTOR_NAMESPACE {

constexpr std::int64_t kLanes = WEFT_VECTOR_FLOATS;
using Vector = float __attribute__((vector_size(4 * WEFT_VECTOR_FLOATS)));
using IntVector = std::int32_t __attribute__((vector_size(4 * WEFT_VECTOR_FLOATS)));

#define WEFT_INLINE [[gnu::always_inline]] static inline

WEFT_INLINE std::int64_t min_of(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

WEFT_INLINE Vector broadcast(float x) { return x - Vector{}; }

WEFT_INLINE Vector load(const float* p) {
  Vector v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
WEFT_INLINE void store(float* p, Vector v) { std::memcpy(p, &v, sizeof v); }

/// Returns the first n < kLanes floats; `fill` in the other lanes.
WEFT_INLINE Vector load_part(const float* p, std::int64_t n, float fill = 0) {
  Vector v = broadcast(fill);
  for (std::int64_t i = 0; i < n; ++i) v[i] = p[i];
  return v;
}
WEFT_INLINE void store_part(float* p, Vector v, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) p[i] = v[i];
}

template <std::size_t... Lane>
WEFT_INLINE IntVector lane_numbers(std::index_sequence<Lane...>) {
  return IntVector{static_cast<std::int32_t>(Lane)...};
}
/// Returns v in the lanes below n, and `fill` in the others. n may be negative or above kLanes.
WEFT_INLINE Vector first_lanes(Vector v, std::int64_t n, float fill) {
  return lane_numbers(std::make_index_sequence<kLanes>()) < static_cast<std::int32_t>(n)
             ? v
             : broadcast(fill);
}

WEFT_INLINE Vector max(Vector a, Vector b) { return a > b ? a : b; }

template <int Shift, std::size_t... Lane>
WEFT_INLINE Vector rotate(Vector v, std::index_sequence<Lane...>) {
  return __builtin_shufflevector(v, v, ((Lane + Shift) % kLanes)...);
}
/// Lane i of the result is lane i + Shift of v.
template <int Shift>
WEFT_INLINE Vector rotate(Vector v) {
  return rotate<Shift>(v, std::make_index_sequence<kLanes>());
}

/// Sums the lanes in halves in a fixed order: (0,8)(1,9)..., then (0,4)..., and so on.
WEFT_INLINE float sum_lanes(Vector v) {
  if constexpr (kLanes >= 16) v += rotate<8>(v);
  if constexpr (kLanes >= 8) v += rotate<4>(v);
  v += rotate<2>(v);
  return v[0] + v[1];
}
WEFT_INLINE float max_lanes(Vector v) {
  if constexpr (kLanes >= 16) v = max(v, rotate<8>(v));
  if constexpr (kLanes >= 8) v = max(v, rotate<4>(v));
  v = max(v, rotate<2>(v));
  return max(v, rotate<1>(v))[0];
}

/// Computes e^x to 2 units in the last place; about 1e-38 for x below -87.3, about 2e38 above 88.
/// Uses x = n ln 2 + r with |r| <= ln 2 / 2, and a minimax polynomial for e^r with the coefficients
/// of Cephes' expf.
WEFT_INLINE Vector exp(Vector x) {
  const Vector low = broadcast(-87.3f), high = broadcast(88.0f);
  x = x < low ? low : x;
  x = x > high ? high : x;
  const Vector magic = broadcast(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const Vector shifted = x * 1.44269504088896341f + magic;
  const Vector n = shifted - magic;
  const Vector r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Vector p = broadcast(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  IntVector bits, exponent;
  std::memcpy(&bits, &p, sizeof bits);
  std::memcpy(&exponent, &shifted, sizeof exponent);
  bits += exponent << 23;  // the low bits of `shifted` are n; the shift drops the others
  std::memcpy(&p, &bits, sizeof p);
  return p;
}

/// Calls body(offset, count) for each vector of [0, size). count is kLanes, except for the last.
template <typename Body>
WEFT_INLINE void for_vectors(std::int64_t size, Body body) {
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) body(i, kLanes);
  if (i < size) body(i, size - i);
}
WEFT_INLINE Vector load_up_to(const float* p, std::int64_t n, float fill = 0) {
  return n == kLanes ? load(p) : load_part(p, n, fill);
}
WEFT_INLINE void store_up_to(float* p, Vector v, std::int64_t n) {
  if (n == kLanes) {
    store(p, v);
  } else {
    store_part(p, v, n);
  }
}

}  // namespace weft::WEFT_VECTOR_NAMESPACE

#pragma once

// Elements in memory and in registers. Kernels load packs of up to 16 bytes, compute in float, and
// store packs.
//
// A kernel's N is the number of elements in a pack: 16 bytes if alignment permits, else 1 element.
#include <cstdint>

namespace weft::cuda {

struct Bf16 {
  std::uint16_t bits;
};

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(Bf16 value) {
  return __uint_as_float(static_cast<std::uint32_t>(value.bits) << 16);
}

template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ Bf16 from_float<Bf16>(float value) {
  return {round_to_bf16(value)};
}

/// N elements as stored in memory; moved by one instruction up to 16 bytes.
template <typename T, int N>
struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Pack {
  T elements[N];

  __device__ __forceinline__ float operator[](int i) const { return to_float(elements[i]); }
  __device__ __forceinline__ void set(int i, float value) { elements[i] = from_float<T>(value); }
};

template <int N, typename T>
__device__ __forceinline__ Pack<T, N> load(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <int N, typename T>
__device__ __forceinline__ void store(T* to, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

/// Number of elements of T in 16 bytes.
template <typename T>
inline constexpr int kPackElements = 16 / sizeof(T);

inline bool aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

inline unsigned blocks_for(std::int64_t work, std::int64_t per_block) {
  return (work + per_block - 1) / per_block;
}

/// Calls f(T()) with the element type.
template <typename F>
void with_type(DType type, F f) {
  if (type == DType::kBF16) {
    f(Bf16());
  } else {
    f(float());
  }
}

template <int N>
struct PackSize {
  static constexpr int value = N;
};
/// Calls f(PackSize<N>()) for packs of T: wide packs or single elements.
template <typename T, typename F>
void with_pack(bool wide, F f) {
  if (wide) {
    f(PackSize<kPackElements<T>>());
  } else {
    f(PackSize<1>());
  }
}

struct Quotient {
  std::int64_t quotient, remainder;
};
/// Divides non-negative numbers. Uses 32-bit division if possible, which is five times as fast.
__device__ __forceinline__ Quotient divide(std::int64_t number, std::int64_t by) {
  if (number < (std::int64_t{1} << 31) && by < (std::int64_t{1} << 31)) {
    const std::uint32_t small = number, divisor = by;
    return {small / divisor, small % divisor};
  }
  return {number / by, number % by};
}

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

/// Returns the sum over the lanes of a warp, in all lanes.
template <typename T>
__device__ __forceinline__ T sum_lanes(T value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

}  // namespace weft::cuda

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/base/check.h"
#include "core/tensor/bfloat16.h"
#include "core/tensor/dtype.h"

namespace weft::test {

/// Adds arrays of `T` as add_up() does, with partial sums of type `Sum`.
template <typename T, typename Sum>
void add_up_as(std::uint64_t count, const std::vector<const std::byte*>& terms, std::byte* to) {
  for (std::uint64_t i = 0; i < count; ++i) {
    Sum sum{};
    for (std::size_t term = 0; term < terms.size(); ++term) {
      T value;
      std::memcpy(&value, terms[term] + i * sizeof(T), sizeof(T));
      sum = term == 0 ? static_cast<Sum>(value) : sum + static_cast<Sum>(value);
    }
    const T result(sum);
    std::memcpy(to + i * sizeof(T), &result, sizeof(T));
  }
}

/// Writes the sum of `terms`, arrays of `count` elements in host memory, to `to`. Adds in the order
/// of `terms`; bf16 is rounded once, after the last addition.
inline void add_up(DType dtype, std::uint64_t count, const std::vector<const std::byte*>& terms,
                   std::byte* to) {
  switch (dtype) {
    case DType::kF32: return add_up_as<float, float>(count, terms, to);
    case DType::kF64: return add_up_as<double, double>(count, terms, to);
    case DType::kI32: return add_up_as<std::int32_t, std::int32_t>(count, terms, to);
    case DType::kBF16: return add_up_as<BFloat16, float>(count, terms, to);
    case DType::kU8: break;
  }
  WEFT_CHECK(false, "a sum of {}", to_string(dtype));
}

}  // namespace weft::test

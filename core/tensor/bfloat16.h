#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace weft {

/// Upper half of a float: 8 exponent bits, 7 mantissa bits. For storage; arithmetic uses float.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to nearest, ties to even. A NaN remains a NaN.
  explicit BFloat16(float value) {
    const auto whole = std::bit_cast<std::uint32_t>(value);
    const bool nan = (whole & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (whole >> 16) | 0x40u
                                          : (whole + 0x7fffu + ((whole >> 16) & 1u)) >> 16);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  friend bool operator==(const BFloat16&, const BFloat16&) = default;  ///< Compares bits.
};

/// Convert each value to the other type; to bf16 by rounding to nearest even. Sizes must be equal.
void convert(std::span<const float> from, std::span<BFloat16> to);
void convert(std::span<const BFloat16> from, std::span<float> to);

}  // namespace weft

#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace weft {

/// The upper half of a float: 8 bits of exponent, 7 of mantissa. For storage; arithmetic is done in
/// float.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// To nearest, ties to even; a NaN stays one.
  explicit BFloat16(float value) {
    const auto whole = std::bit_cast<std::uint32_t>(value);
    const bool nan = (whole & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (whole >> 16) | 0x40u
                                          : (whole + 0x7fffu + ((whole >> 16) & 1u)) >> 16);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  friend bool operator==(const BFloat16&, const BFloat16&) = default;  ///< Of the bits.
};

/// Each value in the other type; to bf16 to nearest even. As many as there are.
void convert(std::span<const float> from, std::span<BFloat16> to);
void convert(std::span<const BFloat16> from, std::span<float> to);

}  // namespace weft

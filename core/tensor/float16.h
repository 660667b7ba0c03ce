#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace weft {

/// Returns the value of an IEEE 754 binary16. Only files contain this type; no op computes with it.
inline float half_to_float(std::uint16_t bits) {
  const bool negative = (bits & 0x8000u) != 0;
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  float value = 0;
  if (exponent == 0x1f)
    value = fraction == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  else if (exponent == 0) value = std::ldexp(static_cast<float>(fraction), -24);
  else value = std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
  return negative ? -value : value;
}

}  // namespace weft

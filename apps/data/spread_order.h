#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace weft::apps {

/// An order of `count` things in which any first few are spread evenly over all of them, and which
/// begins again at its end. A value.
class SpreadOrder {
 public:
  explicit SpreadOrder(std::int64_t count) : count_(count) {
    // Multiples of the golden section, modulo 1, are spread as evenly as can be.
    stride_ = std::max<std::int64_t>(1, std::llround(0.6180339887 * count));
    while (std::gcd(stride_, count) > 1) ++stride_;
  }

  std::int64_t operator[](std::int64_t i) const { return i % count_ * stride_ % count_; }

 private:
  std::int64_t count_;
  std::int64_t stride_ = 1;  // has no divisor in common with count_
};

}  // namespace weft::apps

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace weft::apps {

/// Permutation of `count` items whose every prefix is spread evenly over all items. It repeats
/// after `count` items. A value.
class SpreadOrder {
 public:
  explicit SpreadOrder(std::int64_t count) : count_(count) {
    // Multiples of the golden ratio's fraction, modulo 1, are spread nearly optimally.
    stride_ = std::max<std::int64_t>(1, std::llround(0.6180339887 * count));
    while (std::gcd(stride_, count) > 1) ++stride_;
  }

  std::int64_t operator[](std::int64_t i) const { return i % count_ * stride_ % count_; }

 private:
  std::int64_t count_;
  std::int64_t stride_ = 1;  // coprime to count_
};

}  // namespace weft::apps

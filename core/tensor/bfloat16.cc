#include "core/tensor/bfloat16.h"

#include <algorithm>

#include "core/base/check.h"

namespace weft {

void convert(std::span<const float> from, std::span<BFloat16> to) {
  WEFT_CHECK(from.size() == to.size(), "{} floats to {} bf16", from.size(), to.size());
  std::ranges::transform(from, to.begin(), [](float value) { return BFloat16(value); });
}

void convert(std::span<const BFloat16> from, std::span<float> to) {
  WEFT_CHECK(from.size() == to.size(), "{} bf16 to {} floats", from.size(), to.size());
  std::ranges::transform(from, to.begin(),
                         [](BFloat16 value) { return static_cast<float>(value); });
}

}  // namespace weft

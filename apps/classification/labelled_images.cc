#include "apps/classification/labelled_images.h"

#include <algorithm>
#include <cmath>

namespace weft::apps {

PixelNormalization PixelNormalization::of(const LabelledImages& images) {
  std::uint64_t sum = 0, squares = 0;
  for (const std::uint8_t byte : images.values) {
    sum += byte;
    squares += std::uint64_t{byte} * byte;
  }
  const double count = std::max<std::size_t>(1, images.values.size());
  const double mean = sum / count;
  return {mean, std::sqrt(std::max(1e-6, squares / count - mean * mean))};
}

}  // namespace weft::apps

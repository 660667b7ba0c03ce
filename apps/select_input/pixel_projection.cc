#include "apps/select_input/pixel_projection.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/philox.h"

namespace weft::apps {
namespace {

/// Returns an approximately normal number with mean 0 and deviation 53,500.
std::int32_t normal_number(std::uint64_t key, std::uint64_t row, std::uint64_t column) {
  std::int32_t sum = -8 * 0xffff / 2;
  for (const std::uint32_t word : philox(key, row, column))
    sum += static_cast<std::int32_t>((word >> 16) + (word & 0xffff));
  return sum;
}

}  // namespace

PixelProjection::PixelProjection(std::size_t values, std::uint64_t seed)
    : width_(std::min(values, kWidth)) {
  if (values <= kWidth) return;
  const std::uint64_t key = seed ^ fnv1a("pixels", 6);
  matrix_.reserve(width_ * values);
  for (std::size_t row = 0; row < width_; ++row) {
    for (std::size_t column = 0; column < values; ++column)
      matrix_.push_back(normal_number(key, row, column));
  }
}

void PixelProjection::project(std::span<const std::uint8_t> picture,
                              std::span<float> numbers) const {
  WEFT_CHECK(numbers.size() == width_ && picture.size() * (matrix_.empty() ? 1 : width_) ==
                                             (matrix_.empty() ? width_ : matrix_.size()),
             "{} values to {} numbers", picture.size(), numbers.size());
  if (matrix_.empty()) {
    std::ranges::copy(picture, numbers.begin());
    return;
  }
  for (std::size_t row = 0; row < width_; ++row) {
    const std::int32_t* weights = matrix_.data() + row * picture.size();
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < picture.size(); ++i) sum += std::int64_t{weights[i]} * picture[i];
    numbers[row] = static_cast<float>(sum) * 0x1p-16F;
  }
}

}  // namespace weft::apps

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::apps {

/// Brings pictures of one size to few numbers by a random matrix of normally distributed numbers,
/// which keeps distances (Johnson and Lindenstrauss): vectors where there are no labels to train a
/// coarse model with. So few pixels as there are numbers wanted are taken as they are.
///
/// The matrix has whole numbers, sums of eight uniform ones, and sums are of whole numbers: the
/// same bits everywhere. Any thread.
class PixelProjection final {
 public:
  static constexpr std::size_t kWidth = 64;

  /// `values`: of a picture.
  PixelProjection(std::size_t values, std::uint64_t seed);

  std::size_t width() const { return width_; }
  /// `numbers`: width() of them.
  void project(std::span<const std::uint8_t> picture, std::span<float> numbers) const;

 private:
  std::size_t width_;
  std::vector<std::int32_t> matrix_;  ///< By number, then value; empty: values as they are.
};

}  // namespace weft::apps

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::apps {

/// Projection of pictures of one size to kWidth numbers by a random Gaussian matrix, which keeps
/// distances (Johnson and Lindenstrauss). Used for pictures without labels, for which no coarse
/// model can be trained. Pictures with at most kWidth values are copied.
///
/// Matrix entries are integers, sums of eight uniform ones. Sums are exact integers too, so that
/// every machine gets the same bits. Callable from any thread.
class PixelProjection final {
 public:
  static constexpr std::size_t kWidth = 64;

  /// Creates the matrix for pictures with `values` bytes.
  PixelProjection(std::size_t values, std::uint64_t seed);

  std::size_t width() const { return width_; }
  /// Projects a picture. `numbers` must have width() elements.
  void project(std::span<const std::uint8_t> picture, std::span<float> numbers) const;

 private:
  std::size_t width_;
  std::vector<std::int32_t> matrix_;  ///< Row-major, a row per output number. Empty if values are
                                      ///< copied.
};

}  // namespace weft::apps

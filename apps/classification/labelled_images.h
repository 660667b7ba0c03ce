#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::apps {

/// Pictures of one size, each with a label. Rows count from 0. A value.
struct LabelledImages {
  int height = 0;
  int width = 0;
  int colours = 1;                        ///< Values per pixel: 1 or 3.
  std::vector<std::uint8_t> values = {};  ///< Bytes in the order picture, row, column, colour.
  std::vector<std::uint16_t> labels = {};

  std::size_t size() const { return labels.size(); }
  std::size_t values_per_image() const {
    return height * static_cast<std::size_t>(width) * colours;
  }
  std::span<const std::uint8_t> image(std::size_t row) const {
    return std::span(values).subspan(row * values_per_image(), values_per_image());
  }
  void append(std::span<const std::uint8_t> image, std::uint16_t label) {
    values.insert(values.end(), image.begin(), image.end());
    labels.push_back(label);
  }
};

/// Normalization of a byte of a picture: (byte - mean) / deviation. A value.
struct PixelNormalization {
  double mean = 0;       ///< Mean of the bytes.
  double deviation = 1;  ///< Never 0.

  /// Returns the scale of these pictures. The sums are exact integers.
  static PixelNormalization of(const LabelledImages& images);
  float operator()(std::uint8_t byte) const {
    return static_cast<float>((byte - mean) / deviation);
  }
};

}  // namespace weft::apps

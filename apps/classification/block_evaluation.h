#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "apps/images/labelled_images.h"
#include "apps/models/classifier_graph.h"
#include "core/evaluate/evaluation.h"

namespace weft::apps {

/// What a classifier says of some pictures. A value.
struct ImageBlock {
  std::size_t first = 0;  ///< Row of the pictures.
  std::size_t rows = 0;
  std::vector<float> features;  ///< rows x the last hidden layer's width
  std::vector<float> logits;    ///< rows x classes
};

/// A classifier on one device, for pictures in blocks of a fixed number of rows: what it says of a
/// picture does not depend on who computes which blocks, or in what order. One thread at a time.
class BlockEvaluation final {
 public:
  static constexpr std::size_t kRows = 256;

  /// Borrows the device. Always computes in f32; the batch of `shape` is not looked at.
  BlockEvaluation(Device& device, const ClassifierShape& shape, const PixelScale& scale);

  /// Whose parameters are to be set before run().
  Evaluation& evaluation() { return evaluation_; }
  static std::size_t num_blocks(const LabelledImages& images) {
    return (images.size() + kRows - 1) / kRows;
  }
  /// Rows [block * kRows, ...) of the pictures, which have the shape's size.
  ImageBlock run(const LabelledImages& images, std::size_t block);

 private:
  std::size_t classes_, features_;  ///< Of a row.
  ClassifierGraph model_;
  Evaluation evaluation_;
  std::array<float, 256> scaled_;  ///< What the model reads for each byte.
  std::vector<float> pixels_;
};

/// How sure a classifier is of each class, from its logits: they add up to 1. In double.
std::vector<double> probabilities(std::span<const float> logits);

}  // namespace weft::apps

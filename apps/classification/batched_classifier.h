#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "apps/classification/labelled_images.h"
#include "apps/models/classifier_graph.h"
#include "core/evaluate/evaluation.h"

namespace weft::apps {

/// Outputs of a classifier for a block of pictures. A value.
struct ImageBlock {
  std::size_t first = 0;  ///< Row of the block's first picture.
  std::size_t rows = 0;
  std::vector<float> features;  ///< rows x the last hidden layer's width
  std::vector<float> logits;    ///< rows x classes
};

/// Classifier on one device that computes pictures in blocks of a fixed number of rows. A picture's
/// outputs do not depend on which worker computes which blocks, or in what order. Not thread-safe.
class BatchedClassifier final {
 public:
  static constexpr std::size_t kRows = 256;

  /// Borrows the device. Always computes in f32. Ignores the batch of `shape`.
  BatchedClassifier(Device& device, const ClassifierShape& shape, const PixelNormalization& scale);

  /// Evaluation of the classifier's graph. Set its parameters before run().
  Evaluation& evaluation() { return evaluation_; }
  static std::size_t num_blocks(const LabelledImages& images) {
    return (images.size() + kRows - 1) / kRows;
  }
  /// Computes rows [block * kRows, ...) of the pictures, which must have the shape's size.
  ImageBlock run(const LabelledImages& images, std::size_t block);

 private:
  std::size_t classes_, features_;  ///< Per row.
  ClassifierGraph model_;
  Evaluation evaluation_;
  std::array<float, 256> scaled_;  ///< Input of the model for each byte value.
  std::vector<float> pixels_;
};

/// Returns the softmax of the logits, computed in double.
std::vector<double> probabilities(std::span<const float> logits);

}  // namespace weft::apps

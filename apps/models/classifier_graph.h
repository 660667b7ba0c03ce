#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"

namespace weft::apps {

/// The sizes of a classifier of pictures and of one microbatch.
struct ClassifierShape {
  enum class Kind : std::uint8_t { kMlp, kCnn };

  Kind kind = Kind::kMlp;
  std::int64_t height = 28;
  std::int64_t width = 28;
  std::int64_t colours = 1;                  ///< Values of a pixel.
  std::vector<std::int64_t> channels = {};   ///< Of a cnn: of each of its convolutions.
  std::vector<std::int64_t> hidden = {128};  ///< Widths of the hidden layers, at least one.
  std::int64_t classes = 10;
  std::int64_t batch = 32;  ///< Pictures per microbatch.
  /// Or bf16 (core/README.md, "Mixed precision"); pixels are f32 in both.
  DType precision = DType::kF32;
};

/// A forward graph with the values that its user needs.
struct ClassifierGraph {
  Graph graph;
  /// Of an mlp f32[batch, height * width * colours], of a cnn f32[batch, height, width, colours]:
  /// the same numbers in the same order.
  ValueId pixels;
  ValueId targets;   ///< The label of every picture: i32[batch], of a cnn i32[batch, 1, 1].
  ValueId features;  ///< [batch, .., hidden.back()]: what the output layer reads.
  ValueId logits;    ///< [batch, .., classes], in the model's precision
  ValueId loss;      ///< loss_scale * sum of the pictures' losses
};

/// A multi-layer perceptron, or a small convolutional network that ends as one:
///
///   mlp   pixels ─▶ [linear, GELU] for each of `hidden` ─▶ linear ─▶ logits
///   cnn   pixels ─▶ [convolution 3 x 3 of stride 2, GELU] for each of `channels`
///                ─▶ [linear, GELU] for each of `hidden` ─▶ linear ─▶ logits
///
/// The first linear layer of a cnn is written as a convolution whose kernel covers all that is left
/// of the picture: no op flattens. One block for each layer, the output layer's is the last: stages
/// are cut anywhere. Logical axes: "batch", "pixels" or "height", "width", "colours", then in turn
/// "inner" and "channels" (of features; what one layer gives, the next one reads), "kernel",
/// "classes". `loss_scale` is 1 / (pictures of the whole step). Throws Error(kInvalidArgument) if
/// sizes do not fit.
ClassifierGraph classifier_graph(const ClassifierShape& shape, double loss_scale);

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"

namespace weft::apps {

/// Sizes of an image classifier and of one microbatch.
struct ClassifierShape {
  enum class Kind : std::uint8_t { kMlp, kCnn };

  Kind kind = Kind::kMlp;
  std::int64_t height = 28;
  std::int64_t width = 28;
  std::int64_t colours = 1;                  ///< Values per pixel.
  std::vector<std::int64_t> channels = {};   ///< Output channels of each convolution; empty for an
                                             ///< MLP.
  std::vector<std::int64_t> hidden = {128};  ///< Widths of the hidden layers, at least one.
  std::int64_t classes = 10;
  std::int64_t batch = 32;  ///< Pictures per microbatch.
  /// f32 or bf16 (core/README.md, "Mixed precision"). Pixels are always f32.
  DType precision = DType::kF32;
};

/// Forward graph and its input and output values.
struct ClassifierGraph {
  Graph graph;
  /// Input pictures. An MLP takes f32[batch, height * width * colours], a CNN f32[batch, height,
  /// width, colours], in the same memory order.
  ValueId pixels;
  ValueId targets;   ///< Label of each picture: i32[batch] for an MLP, i32[batch, 1, 1] for a CNN.
  ValueId features;  ///< [batch, .., hidden.back()]: input of the output layer.
  ValueId logits;    ///< [batch, .., classes], in the model's precision
  ValueId loss;      ///< loss_scale * sum of the losses of the pictures
};

/// Builds a multi-layer perceptron, or a small convolutional network with such layers at its end:
///
///   mlp   pixels ─▶ [linear, GELU] for each of `hidden` ─▶ linear ─▶ logits
///   cnn   pixels ─▶ [convolution 3 x 3 of stride 2, GELU] for each of `channels`
///                ─▶ [linear, GELU] for each of `hidden` ─▶ linear ─▶ logits
///
/// No op flattens, so the first linear layer of a CNN is a convolution whose kernel covers the
/// whole remaining picture. Each layer is a block of its own, so stages may be cut between any two
/// layers. Logical axes: "batch", "pixels" or "height", "width", "colours", then "inner" and
/// "channels" in turn for the features between layers, "kernel", "classes". `loss_scale` is 1 /
/// (pictures per step). Throws Error(kInvalidArgument) if the sizes do not fit.
ClassifierGraph classifier_graph(const ClassifierShape& shape, double loss_scale);

}  // namespace weft::apps

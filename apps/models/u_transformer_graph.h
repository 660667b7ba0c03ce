#pragma once

#include <cstdint>

#include "core/graph/graph.h"

namespace weft::apps {

/// Sizes of a U-Transformer and of one microbatch.
struct UTransformerShape {
  std::int64_t height = 96;  ///< Picture height. Height and width are multiples of 2^levels.
  std::int64_t width = 112;
  std::int64_t classes = 2;
  std::int64_t levels = 3;      ///< Number of times that the picture is halved.
  std::int64_t channels = 16;   ///< Channels at full resolution; doubled at each halving.
  std::int64_t group_size = 4;  ///< Channels that are normalised together.
  std::int64_t head_dim = 16;   ///< Divides `channels`, as group_size does.
  /// Number of skips that are gated by cross-attention, counted from the deepest. The others are
  /// passed on unchanged.
  std::int64_t attended_skips = 3;
  std::int64_t batch = 2;  ///< Pictures per microbatch.
  /// f32 or bf16 (core/README.md, "Mixed precision"). Pixels are always f32.
  DType precision = DType::kF32;
};

/// Forward graph and its input and output values.
struct UTransformerGraph {
  Graph graph;
  ValueId pixels;   ///< f32[batch, height, width, 1]
  ValueId targets;  ///< i32[batch, height, width]: the class of every pixel
  ValueId weights;  ///< f32[batch, height, width]: weight of each pixel's loss
  ValueId logits;   ///< [batch, height, width, classes], in the model's precision
  ValueId loss;     ///< loss_scale * weighted sum of pixel losses
};

/// Builds the U-Net of Petit et al. 2021 (arXiv 2103.06104), with self-attention at its bottom and
/// cross-attention on its skips:
///
///   block 0     [conv x2] ── skip ───────────────▶ gate ─▶ [conv x2] -> logits  block 2 levels
///                   ╲ conv, stride 2                ▲    ╱ upsample, conv
///   block 1         [conv x2] ─ skip ─▶ gate ─▶ [conv x2]                       block 2 levels - 1
///                       ╲                ▲    ╱
///   block levels         [conv x2, self-attention]
///
/// A gate is the paper's MHCA: queries and keys are the deeper features, values are the skip,
/// down-sampled to their resolution. The sigmoid of the result is up-sampled and multiplies the
/// skip. Differences from the paper: group norm for batch norm (a sample's result must not depend
/// on its microbatch), SiLU for ReLU, convolutions of stride 2 for max pooling, learned positions
/// for sinusoids, nearest for bilinear.
///
/// Each level is a block, 2 levels + 1 in all. Stages may be cut between any two blocks; a skip
/// then crosses all stages in between. Logical axes: "batch", "height", "width", "kernel",
/// "channels", "inner" (between the two convolutions of a block), "heads", "classes". `loss_scale`
/// is 1 / (pixels per step). Throws Error(kInvalidArgument) if the sizes do not fit.
UTransformerGraph u_transformer_graph(const UTransformerShape& shape, double loss_scale);

}  // namespace weft::apps

#pragma once

#include <cstdint>

#include "core/graph/graph.h"

namespace weft::apps {

/// The sizes of a U-Transformer and of one microbatch.
struct UTransformerShape {
  std::int64_t height = 96;  ///< Of a picture; a multiple of 2^levels, as is the width.
  std::int64_t width = 112;
  std::int64_t classes = 2;
  std::int64_t levels = 3;      ///< How often the picture is halved.
  std::int64_t channels = 16;   ///< At full resolution; doubled with every halving.
  std::int64_t group_size = 4;  ///< Channels that are normalised together.
  std::int64_t head_dim = 16;   ///< Must divide `channels`, as must group_size.
  /// So many skips, the deepest ones, pass through cross attention; the others as they are.
  std::int64_t attended_skips = 3;
  std::int64_t batch = 2;  ///< Pictures per microbatch.
  /// Or bf16 (core/README.md, "Mixed precision"); pixels are f32 in both.
  DType precision = DType::kF32;
};

/// A forward graph with the values that its user needs.
struct UTransformerGraph {
  Graph graph;
  ValueId pixels;   ///< f32[batch, height, width, 1]
  ValueId targets;  ///< i32[batch, height, width]: the class of every pixel
  ValueId weights;  ///< f32[batch, height, width]: what an error at this pixel counts
  ValueId logits;   ///< [batch, height, width, classes], in the model's precision
  ValueId loss;     ///< loss_scale * weighted sum of pixel losses
};

/// The U-Net with self-attention at its bottom and cross-attention on its skips of Petit et al.
/// 2021 (arXiv 2103.06104):
///
///   block 0     [conv x2] ── skip ───────────────▶ gate ─▶ [conv x2] -> logits  block 2 levels
///                   ╲ conv, stride 2                ▲    ╱ upsample, conv
///   block 1         [conv x2] ─ skip ─▶ gate ─▶ [conv x2]                       block 2 levels - 1
///                       ╲                ▲    ╱
///   block levels         [conv x2, self-attention]
///
/// A gate is the paper's MHCA: queries and keys are the deeper features, values the skip at their
/// resolution; sigmoid of what comes out, up-sampled, multiplies the skip. Differences to the
/// paper: group norm for batch norm (a sample's result must not depend on its microbatch), SiLU for
/// ReLU, convolutions of stride 2 for max pooling, learned positions for sinusoids, nearest for
/// bilinear.
///
/// One block per level, so 2 levels + 1 in all: stages are cut anywhere, and skips then cross as
/// many stages as lie between. Logical axes: "batch", "height", "width", "kernel", "channels",
/// "inner" (between the two convolutions of a block), "heads", "classes". `loss_scale` is 1 /
/// (pixels of the whole step). Throws Error(kInvalidArgument) if sizes do not fit.
UTransformerGraph u_transformer_graph(const UTransformerShape& shape, double loss_scale);

}  // namespace weft::apps

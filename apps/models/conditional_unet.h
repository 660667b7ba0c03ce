#pragma once

#include <cstdint>

#include "core/graph/graph.h"

namespace weft::apps {

/// The sizes of a conditional U-Net and of one microbatch. The names by which the paper's benchmark
/// calls its models follow from `channels`: 320 is "470M", 480 "1B", 512 "1.2B", 640 "1.8B", 672
/// "2B".
struct ConditionalUnetShape {
  std::int64_t channels = 320;       ///< C: the levels have C, 2C, 4C, 4C; a multiple of 32.
  std::int64_t heads = 8;            ///< Head width is channels / heads.
  std::int64_t size = 32;            ///< Height and width of a picture; halved three times.
  std::int64_t context_length = 16;  ///< Tokens of the context, each 4C wide.
  std::int64_t batch = 1;
  DType precision = DType::kF32;  ///< Or bf16; the inputs are f32 in both.
};

/// A forward graph with the values that its user needs.
struct ConditionalUnetGraph {
  Graph graph;
  ValueId pixels;         ///< f32[batch, size, size, 3]
  ValueId time_features;  ///< f32[batch, C]: sinusoids of the time step
  ValueId context;        ///< f32[batch, context_length, 4C]
  ValueId targets;        ///< f32[batch, size, size, 4]
  ValueId output;         ///< [batch, size, size, 4], in the model's precision
  ValueId loss;           ///< loss_scale * sum of squared differences
};

/// The conditional U-Net that the paper on cross-mesh resharding (Zhuang et al., MLSys 2023) trains
/// under the name U-Transformer: the one of latent diffusion, with self-attention, cross-attention
/// to a context and a gated feed-forward in its transformers. Its 13 blocks are the paper's 13
/// layers: 0 input convolution and time embedding; 1 to 3 the levels down; 4 the ResNet below; 5, 6
/// the middle; 7, 8 the ResNets at the lowest resolution; 9 to 11 the levels up; 12 the head.
/// Skips: outputs of 1, 2, 3 go to 11, 10, 9; of 3 (shrunk) and 4 to 8 and 7.
///
/// Logical axes: "batch", "height", "width", "kernel", "channels", "inner", "heads", "mlp", "time",
/// "context". `loss_scale` is 1 / (elements of the whole step). Throws Error(kInvalidArgument) if
/// sizes do not fit.
ConditionalUnetGraph conditional_unet_graph(const ConditionalUnetShape& shape, double loss_scale);

}  // namespace weft::apps

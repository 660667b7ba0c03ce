#pragma once

#include <cstdint>

#include "core/graph/graph.h"

namespace weft::apps {

/// Sizes of a conditional U-Net and of one microbatch. The paper's benchmark names its models by
/// size, which `channels` determines: 320 is "470M", 480 "1B", 512 "1.2B", 640 "1.8B", 672 "2B".
struct ConditionalUnetShape {
  std::int64_t channels = 320;       ///< C, a multiple of 32. The levels have C, 2C, 4C, 4C
                                     ///< channels.
  std::int64_t heads = 8;            ///< Head width is channels / heads.
  std::int64_t size = 32;            ///< Height and width of a picture; a multiple of 8.
  std::int64_t context_length = 16;  ///< Tokens of the context, each 4C wide.
  std::int64_t batch = 1;
  DType precision = DType::kF32;  ///< f32 or bf16. The inputs are always f32.
};

/// Forward graph and its input and output values.
struct ConditionalUnetGraph {
  Graph graph;
  ValueId pixels;         ///< f32[batch, size, size, 3]
  ValueId time_features;  ///< f32[batch, C]: sinusoids of the diffusion time step
  ValueId context;        ///< f32[batch, context_length, 4C]
  ValueId targets;        ///< f32[batch, size, size, 4]
  ValueId output;         ///< [batch, size, size, 4], in the model's precision
  ValueId loss;           ///< loss_scale * sum of squared differences
};

/// Builds the conditional U-Net of latent diffusion, with self-attention, cross-attention to a
/// context and a gated feed-forward in its transformers. Zhuang et al. (MLSys 2023), the paper on
/// cross-mesh resharding, train it under the name U-Transformer. Its 13 blocks are the paper's 13
/// layers: 0 input convolution and time embedding; 1 to 3 down path; 4 first ResNet at the lowest
/// resolution; 5, 6 middle; 7, 8 further ResNets at the lowest resolution; 9 to 11 up path; 12
/// output layer. Skip connections: 1 to 11, 2 to 10, 3 to 9, the down-sampled output of 3 to 8, and
/// 4 to 7.
///
/// Logical axes: "batch", "height", "width", "kernel", "channels", "inner", "heads", "mlp", "time",
/// "context". `loss_scale` is 1 / (output elements per step). Throws Error(kInvalidArgument) if the
/// sizes do not fit.
ConditionalUnetGraph conditional_unet_graph(const ConditionalUnetShape& shape, double loss_scale);

}  // namespace weft::apps

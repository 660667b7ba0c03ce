#pragma once

#include <cstdint>

#include "core/graph/graph.h"

namespace weft::apps {

/// Sizes of a GPT and of one microbatch.
struct GptShape {
  std::int64_t layers = 4;
  std::int64_t width = 128;     ///< width of the residual stream; a multiple of `heads`
  std::int64_t heads = 4;       ///< attention heads
  std::int64_t sequence = 128;  ///< tokens per sequence
  std::int64_t batch = 8;       ///< sequences per microbatch
  std::int64_t vocabulary = 2048;
  /// True if the output layer is the transposed embedding table, as in GPT-2.
  bool tied_embeddings = false;
  DType precision = DType::kF32;  ///< f32 or bf16 (core/README.md, "Mixed precision").
};

/// Forward graph and its input and output values.
struct GptGraph {
  Graph graph;
  ValueId tokens;   ///< i32[batch, sequence]
  ValueId targets;  ///< i32[batch, sequence]: the next token of each position
  ValueId logits;   ///< [batch, sequence, vocabulary], in the model's precision
  ValueId loss;     ///< loss_scale * sum of token losses
};

/// Builds GPT-2 (pre-norm, learned positions, tanh GELU) with GPT-2's initialisation. The output
/// layer has weights of its own unless embeddings are tied.
///
/// Each layer is a block. The embeddings belong to the first block, the final norm and the output
/// layer to the last. Logical axes: "batch", "sequence", "vocab", "embed", "qkv", "heads", "mlp".
/// `loss_scale` is 1 / (tokens per step), so that losses and gradients of all microbatches add up
/// to the mean. Throws Error(kInvalidArgument) if a size is not positive or the heads do not divide
/// the width.
GptGraph gpt_graph(const GptShape& shape, double loss_scale);

}  // namespace weft::apps

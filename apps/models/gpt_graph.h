#pragma once

#include <cstdint>

#include "core/graph/graph.h"

namespace weft::apps {

/// The sizes of a GPT and of one microbatch.
struct GptShape {
  std::int64_t layers = 4;
  std::int64_t width = 128;     ///< of the residual stream
  std::int64_t heads = 4;       ///< must divide the width
  std::int64_t sequence = 128;  ///< tokens per sequence
  std::int64_t batch = 8;       ///< sequences per microbatch
  std::int64_t vocabulary = 2048;
  /// The output layer is the transpose of the embedding's table, as in GPT-2.
  bool tied_embeddings = false;
  DType precision = DType::kF32;  ///< Or bf16 (core/README.md, "Mixed precision").
};

/// A forward graph with the values that its user needs.
struct GptGraph {
  Graph graph;
  ValueId tokens;   ///< i32[batch, sequence]
  ValueId targets;  ///< i32[batch, sequence]: the tokens that follow
  ValueId logits;   ///< [batch, sequence, vocabulary], in the model's precision
  ValueId loss;     ///< loss_scale * sum of token losses
};

/// GPT-2's architecture (pre-norm, learned positions, tanh GELU), with an output layer of its own
/// unless embeddings are tied, and GPT-2's initialisation.
///
/// One block per layer: the embeddings belong to the first, the final norm and the output layer to
/// the last. Logical axes: "batch", "sequence", "vocab", "embed", "qkv", "heads", "mlp".
/// `loss_scale` is 1 / (tokens of the whole step), so that the losses and gradients of all
/// microbatches of a step add up to the mean. Throws Error(kInvalidArgument) if a size is not
/// positive or the heads do not divide the width.
GptGraph gpt_graph(const GptShape& shape, double loss_scale);

}  // namespace weft::apps

#pragma once

#include <vector>

#include "core/graph/graph.h"
#include "mesh/strategy/strategy.h"

namespace weft::mesh {

/// Splits layer norms, cross-entropies and embeddings over a split dimension, and their gradients,
/// into parts: statistics of each slice, their combination, and its application
/// (core/ops/split_layer_norm.cc, split_cross_entropy.cc, embedding_slice.cc). `by_block` has the
/// splits of each block; nodes whose dimension stays whole do not change. Vocabularies ("vocab" of
/// parameters) that do not divide are padded to the next size that does, in all blocks; the loss
/// ignores padded logits.
///
/// With early_input_grad, the output layer prepares the gradient of its linear's input in forward,
/// and backward only combines it instead of computing that product
/// (split_cross_entropy_input_grad.cc). The logits' gradient is then of pass W.
///
/// Inputs, parameters, blocks and names stay; ids change. Throws Error(kInvalidConfig) if a layer
/// norm's width does not divide, or if early_input_grad is set and the model does not end in a
/// linear and a cross-entropy.
TrainingGraph split_graph(const TrainingGraph& model, const std::vector<FeatureSplits>& by_block);

}  // namespace weft::mesh

#pragma once

#include <vector>

#include "core/graph/graph.h"
#include "mesh/strategy/strategy.h"

namespace weft::mesh {

/// The graph with layer norms, cross-entropies and embeddings whose normalised dimension is split,
/// and their gradients, in parts that can be: statistics of each slice, their combination, and its
/// application (core/ops/split_layer_norm.cc, split_cross_entropy.cc, embedding_slice.cc). By block
/// of the model; nodes whose dimension stays whole are left as they are. Vocabularies ("vocab" of
/// parameters) that do not divide are padded to the next size that does, in all blocks; padded
/// logits do not exist for the loss. With early_input_grad the output layer's block has in forward
/// what the gradient of its linear's input is made of, and in backward its combination in place of
/// that product (split_cross_entropy_input_grad.cc); the logits' gradient is of pass W then.
/// Inputs, parameters, blocks and names stay; ids change. Throws Error(kInvalidConfig) when a layer
/// norm's width does not divide, and with early_input_grad when the model does not end in a linear
/// and a cross-entropy.
TrainingGraph split_graph(const TrainingGraph& model, const std::vector<FeatureSplits>& by_block);

}  // namespace weft::mesh

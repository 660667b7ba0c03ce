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
/// logits do not exist for the loss. Inputs, parameters, blocks and names stay; ids change. Throws
/// Error(kInvalidConfig) when a layer norm's width does not divide.
TrainingGraph split_graph(const TrainingGraph& model, const std::vector<FeatureSplits>& by_block);

}  // namespace weft::mesh

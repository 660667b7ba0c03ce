#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"

namespace weft::mesh {

/// How many ways a layout splits the dimensions that ops normalise or select over.
struct FeatureSplits {
  std::int64_t residual = 1;  ///< "embed", of activations.
  std::int64_t hidden = 1;    ///< "heads", "mlp", "vocab", of activations.
  std::int64_t rows = 1;      ///< "vocab", of an embedding's table.
  bool any() const { return residual > 1 || hidden > 1 || rows > 1; }
};

/// The graph with layer norms, cross-entropies and embeddings whose normalised dimension is split,
/// and their gradients, in parts that can be: statistics of each slice, their combination, and its
/// application (core/ops/split_layer_norm.cc, split_cross_entropy.cc, embedding_slice.cc). By block
/// of the model; nodes whose dimension stays whole are left as they are. Inputs, parameters, blocks
/// and names stay; ids change. Throws Error(kInvalidConfig) when a dimension does not divide.
TrainingGraph split_graph(const TrainingGraph& model, const std::vector<FeatureSplits>& by_block);

}  // namespace weft::mesh

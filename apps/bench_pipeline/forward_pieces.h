#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"

namespace weft::apps {

/// A part of a forward graph that ends with a feature map which a later block uses, or with the
/// output.
struct ForwardPiece {
  int block = 0;
  std::vector<int> inputs;    ///< Pieces whose feature maps it reads.
  std::int64_t elements = 0;  ///< Of the feature map it makes.
  double flops = 0;           ///< Of its convolutions, matrix products and attention.
};

/// Cuts a forward graph at its feature maps (values of rank 4) that cross from a block to a later
/// one, in the order in which they are computed, so that a skip connection leaves when it would.
/// Counted is what the reference counts whose numbers the paper's models have: neither norms and
/// activations, nor the time embedding (0.04 % of the FLOPs), which crosses too.
std::vector<ForwardPiece> forward_pieces(const Graph& graph, ValueId output);

}  // namespace weft::apps

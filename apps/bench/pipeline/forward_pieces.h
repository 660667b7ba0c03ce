#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"

namespace weft::apps {

/// Part of a forward graph that ends with the output or with a feature map that a later block uses.
struct ForwardPiece {
  int block = 0;
  std::vector<int> inputs;    ///< Pieces whose feature maps it reads.
  std::int64_t elements = 0;  ///< Elements of its feature map.
  double flops = 0;           ///< FLOPs of its convolutions, matrix products and attention.
};

/// Cuts a forward graph, in the order of computation, at the feature maps (values of rank 4) that a
/// later block uses, so that skip connections start where they would. Counts FLOPs as the reference
/// of the paper's models does: without norms, activations and the time embedding (0.04 % of the
/// FLOPs), although the latter crosses blocks too.
std::vector<ForwardPiece> forward_pieces(const Graph& graph, ValueId output);

}  // namespace weft::apps

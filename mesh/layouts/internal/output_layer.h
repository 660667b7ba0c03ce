#pragma once

#include <optional>
#include <string>

#include "core/graph/graph.h"

namespace weft::mesh {

/// The end of a model over a vocabulary: logits = x W, loss = cross-entropy(logits).
struct OutputLayer {
  NodeId linear;  ///< kLinear, or kLinearInputGrad where W is a table that is an embedding too.
  NodeId loss;
  /// Both absent of a graph that has no backward, input_grad also where nothing before is trained.
  std::optional<NodeId> loss_grad = {};
  std::optional<NodeId> input_grad = {};  ///< Gives the gradient of x, or a term of it.
};

/// Throws Error(kInvalidConfig) if the model does not end so, with W's columns named "vocab", or if
/// the logits have other uses.
OutputLayer output_layer(const TrainingGraph& model);

}  // namespace weft::mesh

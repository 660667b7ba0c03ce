#pragma once

#include <optional>
#include <string>

#include "core/graph/graph.h"

namespace weft::mesh {

/// Last layer of a model with a vocabulary: logits = x W, loss = cross-entropy(logits).
struct OutputLayer {
  NodeId linear;  ///< kLinear, or kLinearInputGrad if W is also an embedding's table.
  NodeId loss;
  /// Both absent in forward-only graphs. `input_grad` is also absent if no earlier layer is
  /// trained.
  std::optional<NodeId> loss_grad = {};
  std::optional<NodeId> input_grad = {};  ///< Computes the gradient of x, or a term of it.
};

/// Finds the output layer. Throws Error(kInvalidConfig) if the model does not end in one, if W's
/// columns are not named "vocab", or if the logits have other uses.
OutputLayer output_layer(const TrainingGraph& model);

}  // namespace weft::mesh

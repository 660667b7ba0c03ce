#pragma once

#include "core/graph/graph.h"

namespace weft {

/// Extends a forward graph by the nodes that compute the gradient of `loss` by every parameter.
///
/// Forward nodes come first, unchanged; backward nodes follow in an order in which they can run:
/// last forward node first. Each has the block of the forward node that it belongs to, and is
/// either I (input gradient) or W (weight gradient); no I node needs a W node. Where a value is
/// used several times, its gradients are added by `add` nodes, in reverse order of the uses: those
/// of one block in that block, then their sums in the block of the value's producer. A parameter
/// that several blocks use has a gradient term per block.
///
/// A gradient has its value's shape and element type, but those of parameters are f32 always;
/// conversions are put in where an op gives the other one.
///
/// `loss` must be the result of cross_entropy or squared_error; nothing else may use it. Throws
/// Error(kInvalidArgument) otherwise, or when a parameter does not influence the loss.
TrainingGraph differentiate(const Graph& forward, ValueId loss);

}  // namespace weft

#pragma once

#include "core/graph/graph.h"

namespace weft {

/// Extends a forward graph by the nodes that compute the gradient of `loss` by every parameter.
///
/// Forward nodes come first, unchanged. Backward nodes follow in an executable order, those of the
/// last forward node first. A backward node has the block of its forward node and is either I
/// (input gradient) or W (weight gradient); no I node depends on a W node. If a value is used
/// several times, `add` nodes sum its gradients in reverse order of the uses: first those of one
/// block, in that block; then the sums of all blocks, in the block that produces the value. A
/// parameter that several blocks use has one gradient term per block.
///
/// A gradient has the shape and element type of its value; gradients of parameters are always f32.
/// Conversions are inserted where an op yields the other type.
///
/// `loss` must be the result of cross_entropy or squared_error and must have no other use. Throws
/// Error(kInvalidArgument) otherwise, if two parameters have the same name, or if a parameter does
/// not influence the loss.
TrainingGraph differentiate(const Graph& forward, ValueId loss);

}  // namespace weft

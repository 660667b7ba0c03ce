#pragma once

#include <cstdint>
#include <vector>

#include "mesh/plan/training_plan.h"

namespace weft::apps {

/// Part of an emulated model that makes one tensor: a layer, or its part up to the start of a skip
/// connection.
struct EmulatedPiece {
  int block = 0;
  std::vector<int> inputs;    ///< Pieces whose tensors it reads; empty: the model's input.
  std::int64_t features = 1;  ///< f32 elements per row of its tensor.
  double forward_seconds = 0;
  double input_grad_seconds = 0;
  double weight_grad_seconds = 0;
  std::int64_t weights = 1;  ///< f32 elements of its weights.
};

/// Builds a model with one emulated_block per piece, usually with a single weight, so that gradient
/// sums cost nothing. The last piece makes the output. Blocks must not decrease. The input of the
/// first pieces depends on a weight of block 0, so that they have an input gradient like all
/// others.
///
/// Inputs: "samples" f32[rows, 1], "targets" f32[rows, features of the last piece]. Logical axes:
/// "batch", "features". The backward keeps only the inputs of pieces, as with re-materialisation
/// per layer.
///
/// With `tensor_parallel` > 1 every piece begins with an all-reduce of one element per row among
/// that many devices, forward and backward. The weights' axis kTensorParallelAxis is split for
/// that. It keeps these devices in lockstep. Otherwise each pair of devices would be a pipeline of
/// its own and hide its transfers behind the others' computation.
///
/// Throws Error(kInvalidArgument) for pieces that use later ones.
mesh::ModelGraphs emulated_graphs(std::int64_t rows, const std::vector<EmulatedPiece>& pieces,
                                  std::int64_t tensor_parallel = 1);
inline constexpr const char* kTensorParallelAxis = "lanes";

/// Seconds of the pieces in blocks [first, last), per microbatch.
struct PassSeconds {
  double forward = 0;
  double input_grad = 0;
  double weight_grad = 0;
  double all() const { return forward + input_grad + weight_grad; }
};
PassSeconds pass_seconds(const Graph& training, int first, int last);

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <vector>

#include "mesh/plan/training_plan.h"

namespace weft::apps {

/// A part of an emulated model that makes one tensor: a layer, or so much of it as comes before a
/// skip connection leaves.
struct EmulatedPiece {
  int block = 0;
  std::vector<int> inputs;    ///< Pieces whose tensors it uses; none: the model's input.
  std::int64_t features = 1;  ///< f32 elements that it makes per row.
  double forward_seconds = 0;
  double input_grad_seconds = 0;
  double weight_grad_seconds = 0;
  std::int64_t weights = 1;  ///< f32 elements.
};

/// A model of such pieces: one emulated_block each, usually with a single weight, so that gradient
/// sums cost nothing. The last piece makes the output. Blocks must not decrease. What enters the
/// first pieces depends on a weight of block 0, so they have an input gradient like all others.
///
/// Inputs: "samples" f32[rows, 1], "targets" f32[rows, features of the last piece]; logical axes
/// "batch", "features". Memory kept for the backward is what pieces take in: re-materialisation per
/// layer.
///
/// `tensor_parallel` > 1: every piece begins with an all-reduce of one element per row among so
/// many devices, forward and backward, where the weights' axis kTensorParallelAxis is split.
/// Devices that split weights run in step; without it each pair of devices would be a pipeline of
/// its own, and hide its transfers behind the others' computation.
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

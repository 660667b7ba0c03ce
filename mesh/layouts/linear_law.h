#pragma once

#include <string>
#include <vector>

#include "mesh/layouts/layout.h"

namespace weft::mesh {

/// A product y[M, N] = x[M, K] w[K, N] of a microbatch.
struct LinearShape {
  double m = 0, k = 0, n = 0;
  bool is_expand = true;  ///< Else contract: see layout_strategy().
};

/// What a device receives of one tensor and of its gradient in a step.
struct LawOfTensor {
  std::string axes;              ///< Along which it moves: "i", "depth+row".
  double elements = 0;           ///< Of x, w or y, and of the gradients of x and y.
  double gradient_elements = 0;  ///< Of w's gradient, which is f32 whatever w is.
};

/// What each device receives in a step for one linear under a layout, forward and backward, by
/// closed form: x along what splits n, y along what splits k, w along what splits tokens (Bian et
/// al. 2021, section 3.2; of SUMMA, Megatron and ZeRO with axes of their own). Sizes of axes need
/// not be equal; every dimension must divide. What is received in a microbatch counts as often.
std::vector<LawOfTensor> linear_law(const LayoutChoice& choice, const DeviceMesh& mesh,
                                    const LinearShape& shape, int microbatches);

}  // namespace weft::mesh

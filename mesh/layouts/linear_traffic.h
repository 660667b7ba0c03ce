#pragma once

#include <string>
#include <vector>

#include "mesh/layouts/layout.h"

namespace weft::mesh {

/// Product y[M, N] = x[M, K] w[K, N] of one microbatch.
struct LinearShape {
  double m = 0, k = 0, n = 0;
  bool is_expand = true;  ///< False: contract. See layout_strategy().
};

/// Elements that a device receives of one tensor and its gradient in a step.
struct TensorTraffic {
  std::string axes;              ///< Axes along which it moves: "i", "depth+row".
  double elements = 0;           ///< Elements of x, w or y, and of the gradients of x and y.
  double gradient_elements = 0;  ///< Elements of w's gradient, which is always f32.
};

/// Computes in closed form what each device receives in a step for one linear under a layout,
/// forward and backward. x moves along the axes that split n, y along those that split k, w along
/// those that split tokens (Bian et al. 2021, section 3.2; SUMMA, Megatron and ZeRO likewise, with
/// their axes). Axes may differ in size; every dimension must divide. Traffic per microbatch counts
/// once per microbatch.
std::vector<TensorTraffic> predict_linear_traffic(const LayoutChoice& choice,
                                                  const DeviceMesh& mesh, const LinearShape& shape,
                                                  int microbatches);

}  // namespace weft::mesh

#pragma once

#include <span>

#include "core/graph/op.h"
#include "core/tensor/shape.h"

namespace weft {

inline double no_flops(const Op&, std::span<const TensorType>) { return 0; }

/// Returns `PerElement` operations for each element of the first input.
template <int PerElement>
double flops_per_element(const Op&, std::span<const TensorType> inputs) {
  return PerElement * static_cast<double>(inputs[0].elements());
}

}  // namespace weft

#pragma once

#include <functional>
#include <span>

#include "core/graph/graph.h"

namespace weft::mesh {

/// What an op takes on one device of its mesh, whose shares of the inputs are `inputs`.
using OpSeconds = std::function<double(const Op& op, std::span<const TensorType> inputs)>;

/// An emulated device's time (core/device): what emulated ops state, and of other ops their
/// floating point operations at that rate; 0: those take none. For real devices the times of ops in
/// proportion to each other; see scale_to().
OpSeconds cost_model_seconds(double flops_per_second);

}  // namespace weft::mesh

#pragma once

#include <functional>
#include <span>

#include "core/graph/graph.h"

namespace weft::mesh {

/// Function that returns the seconds of an op on one device of its mesh. `inputs`: types of the
/// device's shards.
using OpTimeModel = std::function<double(const Op& op, std::span<const TensorType> inputs)>;

/// Returns a function that times ops as an emulated device does (core/device). An emulated op takes
/// the seconds that it states; other ops take their FLOPs at `flops_per_second`, or no time if that
/// is 0. For real devices only the ratios of these times matter: see scale_to_measured().
OpTimeModel cost_model_seconds(double flops_per_second);

}  // namespace weft::mesh

#pragma once

#include "mesh/layouts/internal/definitions.h"

namespace weft::mesh {

/// Makes the strategy of a layout whose axes are `axes`.
ShardingStrategy apply_layout(const MeshGraph& part, const LayoutAxes& axes,
                              GatherFrequency gather);

}  // namespace weft::mesh

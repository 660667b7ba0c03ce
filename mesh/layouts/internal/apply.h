#pragma once

#include "mesh/layouts/internal/definitions.h"

namespace weft::mesh {

/// Makes the strategy of a layout whose axes are `axes`.
ShardingStrategy apply(const MeshGraph& part, const LayoutAxes& axes, Gather gather,
                       int microbatches);

}  // namespace weft::mesh

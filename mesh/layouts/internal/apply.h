#pragma once

#include "mesh/layouts/internal/definitions.h"

namespace weft::mesh {

/// Makes a strategy of a layout's axes.
ShardingStrategy apply(const MeshGraph& part, const LayoutAxes& axes, Gather gather,
                       int microbatches);

}  // namespace weft::mesh

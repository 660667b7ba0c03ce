#pragma once

#include <cstddef>
#include <vector>

#include "mesh/partition/partition.h"
#include "mesh/schedule/action.h"

namespace weft::mesh {

/// Indices of the steps of a mesh that an action of a stage runs, in the order in which programs
/// run them. What is computed again comes before these.
std::vector<std::size_t> steps_of(const MeshPartition& part, StageId stage, ActionKind kind);

/// What a stage that recomputes runs again, in that order.
std::vector<std::size_t> steps_again(const MeshPartition& part, StageId stage);

}  // namespace weft::mesh

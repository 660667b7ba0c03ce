#pragma once

#include <cstddef>
#include <vector>

#include "mesh/partition/partition.h"
#include "mesh/schedule/action.h"

namespace weft::mesh {

/// Which of a mesh's steps an action of a stage runs, in the order in which programs run them
/// (MeshCompiler::emit_steps). What is computed again comes before these.
std::vector<std::size_t> steps_of(const MeshPartition& part, int stage, ActionKind kind);

/// What a stage that recomputes runs again, in that order.
std::vector<std::size_t> steps_again(const MeshPartition& part, int stage);

}  // namespace weft::mesh

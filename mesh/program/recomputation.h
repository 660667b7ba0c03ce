#pragma once

#include <cstddef>
#include <set>

#include "mesh/partition/partition.h"

namespace weft::mesh {

/// What a stage does that keeps few activations.
struct RecomputedSteps {
  std::set<LocalId> dropped;  ///< After its forward; not what other stages of its mesh use.
  /// Indices into MeshPartition::steps: what its backward needs of them, run once more before it.
  std::set<std::size_t> steps;
};

RecomputedSteps recomputed_steps(const MeshPartition& part, StageId stage);

}  // namespace weft::mesh

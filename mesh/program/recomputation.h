#pragma once

#include <cstddef>
#include <set>

#include "mesh/partition/partition.h"

namespace weft::mesh {

/// Activations and steps of a stage that recomputes.
struct RecomputedSteps {
  /// Activations dropped after the forward; excludes those that other stages of the mesh use.
  std::set<LocalId> dropped;
  /// Indices into MeshPartition::steps: forward steps to rerun, as the backward needs their
  /// outputs.
  std::set<std::size_t> steps;
};

RecomputedSteps recomputed_steps(const MeshPartition& part, StageId stage);

}  // namespace weft::mesh

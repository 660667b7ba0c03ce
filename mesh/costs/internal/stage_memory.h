#pragma once

#include "mesh/plan/training_plan.h"

namespace weft::mesh {

/// What a microbatch holds on the fullest device of a stage, in bytes.
struct StageMemory {
  double activations = 0;         ///< What F makes or gets and I or W read.
  double for_weight_grad = 0;     ///< What W reads: of those, and of what I makes or gets.
  double kept_for_recompute = 0;  ///< Of `activations` what stays where the rest is computed again.
};

StageMemory stage_memory(const Partition& partition, StageId stage);

/// Bytes of a value on the device that has most of it.
double local_bytes(const Partition& partition, MeshId mesh, LocalId local);

/// What vocabulary passes hold of a microbatch, on the device that holds most; see StageCosts.
struct VocabularyMemory {
  double scores = 0;
  double partial = 0;
  double embedded = 0;
};
VocabularyMemory vocabulary_memory(const Partition& partition, int vocabulary_barriers);

}  // namespace weft::mesh

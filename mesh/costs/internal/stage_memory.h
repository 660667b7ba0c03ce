#pragma once

#include "mesh/plan/training_plan.h"

namespace weft::mesh {

/// Memory of one microbatch on the fullest device of a stage, in bytes.
struct StageMemory {
  double activations = 0;             ///< Values that F makes or receives and I or W read.
  double for_weight_grad = 0;         ///< Values that F or I makes or receives and W reads.
  double retained_for_recompute = 0;  ///< Part of `activations` that a recomputing stage keeps.
};

StageMemory stage_memory(const Partition& partition, StageId stage);

/// Returns the bytes of a value on the device that holds most of it.
double local_bytes(const Partition& partition, MeshId mesh, LocalId local);

/// Memory that vocabulary passes hold for a microbatch, in bytes of the fullest device. See
/// StageCosts.
struct VocabularyMemory {
  double scores = 0;
  double partial = 0;
  double embedded = 0;
};
VocabularyMemory vocabulary_memory(const Partition& partition, int vocabulary_barriers);

}  // namespace weft::mesh

#pragma once

#include <cstdint>
#include <string>

#include "mesh/plan/training_plan.h"

namespace weft::mesh {

/// Returns the path of a transfer of a training step. `op`: its number in `train`.
transfer::PathChoice path_of(const TrainingPlan& plan, std::uint32_t op);

/// Returns the output of `weft plan`: meshes, stages, specs of boundary tensors, resharding tasks
/// with bytes and flows.
std::string describe(const TrainingPlan& plan);

/// Returns a line on how tensors go from GPU to GPU in a training step, or "" if none does.
std::string describe_gpu_transfers(const TrainingPlan& plan);

}  // namespace weft::mesh

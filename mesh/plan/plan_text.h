#pragma once

#include <cstdint>
#include <string>

#include "mesh/plan/training_plan.h"

namespace weft::mesh {

/// The way that a transfer of a training step takes, by its number in `train`.
transfer::PathChoice path_of(const TrainingPlan& plan, std::uint32_t op);

/// What `weft plan` prints: meshes, stages, specs of the boundary tensors, resharding tasks with
/// bytes and flows.
std::string describe(const TrainingPlan& plan);

/// How tensors go from GPU to GPU in a training step, in a line; empty where none does.
std::string describe_gpu_transfers(const TrainingPlan& plan);

}  // namespace weft::mesh

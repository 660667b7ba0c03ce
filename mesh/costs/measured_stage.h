#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mesh/plan/training_plan.h"
#include "mesh/runtime/step.h"

namespace weft::mesh {

/// What the actions of a stage took on real devices, in seconds. Of the vocabulary's stages, on the
/// mean of all actors: forward stands for S and IF, weight_grad for T and IB.
struct MeasuredStage {
  double forward = 0;
  double input_grad = 0;  ///< With the R that an I of a stage begins with that recomputes.
  double weight_grad = 0;
};

/// Whether standing still for transfers within the mesh counts. Never of vocabulary passes, whose
/// devices wait for each other.
enum class Collectives : std::uint8_t { kIncluded, kLeftOut };

/// By stage of the partition. Of a backward that was measured as a whole I and W have their parts
/// by FLOPs. Throws Error(kInvalidArgument) unless F and B, or F, I and W, of each stage that the
/// schedule counts were measured.
std::vector<MeasuredStage> measured_stages(const TrainingPlan& plan,
                                           std::span<const ActionTime> actions,
                                           Collectives collectives);

/// Throws Error(kInvalidArgument) unless there is one for each stage of the partition.
void require_measured(const TrainingPlan& plan, std::span<const MeasuredStage> measured);

}  // namespace weft::mesh

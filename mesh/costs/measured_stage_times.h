#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mesh/plan/training_plan.h"
#include "mesh/runtime/step.h"

namespace weft::mesh {

/// Seconds of a stage's actions, measured on real devices. For the vocabulary's stages: means over
/// all actors, S and IF in `forward`, T and IB in `weight_grad`.
struct MeasuredStageTimes {
  double forward = 0;
  double input_grad = 0;  ///< Includes the R at the beginning of I, if the stage recomputes.
  double weight_grad = 0;
};

/// Treatment of waits for transfers within the mesh in the time of an action. Vocabulary passes
/// never include them, as their devices wait for each other.
enum class CollectiveTime : std::uint8_t { kIncluded, kExcluded };

/// Returns the measured times by stage of the partition. Splits a measured B into I and W by FLOPs.
/// Throws Error(kInvalidArgument) unless F and B, or F, I and W, were measured for each stage that
/// the schedule counts.
std::vector<MeasuredStageTimes> measured_stages(const TrainingPlan& plan,
                                                std::span<const ActionTime> actions,
                                                CollectiveTime collectives);

/// Throws Error(kInvalidArgument) unless `measured` has one entry per stage of the partition.
void require_measured(const TrainingPlan& plan, std::span<const MeasuredStageTimes> measured);

}  // namespace weft::mesh

#pragma once

#include <span>

#include "mesh/costs/plan_costs.h"
#include "mesh/plan/training_plan.h"
#include "mesh/program/op_time_model.h"
#include "mesh/program/simulate_programs.h"

namespace weft::mesh {

/// Returns the seconds of each instruction of the plan's training programs. Only ops take time.
InstructionSeconds program_seconds(const TrainingPlan& plan, const OpTimeModel& seconds);

/// Scales these times so that F, I and W of a microbatch take the measured seconds on every device
/// of a stage. R keeps its ratio to F. Throws Error(kInvalidArgument) unless `measured` has one
/// entry per stage of the partition.
InstructionSeconds program_seconds(const TrainingPlan& plan, const OpTimeModel& seconds,
                                   std::span<const MeasuredStageTimes> measured);

/// Simulates one training step of the plan over the plan's network.
ProgramSimulation simulate_step(const TrainingPlan& plan, const InstructionSeconds& seconds);

/// Returns busiest_link_seconds() (mesh/program) of the plan's training programs over its network.
double busiest_link_seconds(const TrainingPlan& plan);

}  // namespace weft::mesh

#pragma once

#include <span>

#include "mesh/costs/op_seconds.h"
#include "mesh/costs/plan_costs.h"
#include "mesh/plan/training_plan.h"
#include "mesh/program/simulate_programs.h"

namespace weft::mesh {

/// What each instruction of a plan's training programs takes on its device. Only ops take time.
InstructionSeconds program_seconds(const TrainingPlan& plan, const OpSeconds& seconds);

/// The same, scaled so that F, I and W of a microbatch take on every device of a stage what was
/// measured of it; R in proportion to F. Throws Error(kInvalidArgument) unless there is one for
/// each stage.
InstructionSeconds program_seconds(const TrainingPlan& plan, const OpSeconds& seconds,
                                   std::span<const MeasuredStage> measured);

/// One training step of the plan, its transfers over the network that it counts on.
ProgramSimulation simulate_step(const TrainingPlan& plan, const InstructionSeconds& seconds);

/// See busiest_link_seconds() of programs: of the plan's training step, over the network that it
/// counts on.
double busiest_link_seconds(const TrainingPlan& plan);

}  // namespace weft::mesh

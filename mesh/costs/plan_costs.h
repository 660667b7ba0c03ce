#pragma once

#include <span>

#include "mesh/costs/measured_stage_times.h"
#include "mesh/plan/training_plan.h"
#include "mesh/program/op_time_model.h"
#include "mesh/schedule/simulate.h"

namespace weft::mesh {

/// Returns the costs of a plan for simulate(). Per stage: seconds of F, I, W and R on its slowest
/// device, including collectives within the mesh; seconds of its gradient reduction; bytes per
/// microbatch on its fullest device. Per tensor between meshes: planned seconds, bytes per device,
/// and when within the actions it is made and needed. Meshes on the same hosts share a network
/// interface.
///
/// A tensor without a gradient of equal size has its own edge, on which the reverse direction does
/// not exist. Edges between stages of one mesh take no time. `nic_of_actor` numbers actors in the
/// order of their first stages, as named schedules do, or as the plan's own schedule numbers them.
/// The costs leave out the dispatch of actions (dispatch_time) and the optimizer's time.
ScheduleCosts plan_costs(const TrainingPlan& plan, const OpTimeModel& seconds);

/// Returns options with which simulate() predicts the steps of the plan's programs.
SimulationOptions simulation_options_of(const TrainingPlan& plan);

/// Replaces the times of stages and vocabulary passes by measured ones. R keeps its ratio to F.
/// Tensors are made and needed at the same fractions of actions as before. Throws
/// Error(kInvalidArgument) unless `measured` has one entry per stage of the partition.
void scale_to_measured(ScheduleCosts& costs, const TrainingPlan& plan,
                       std::span<const MeasuredStageTimes> measured);

}  // namespace weft::mesh

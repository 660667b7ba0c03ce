#pragma once

#include <span>

#include "mesh/costs/measured_stage.h"
#include "mesh/costs/op_seconds.h"
#include "mesh/plan/training_plan.h"
#include "mesh/schedule/simulate.h"

namespace weft::mesh {

/// What a simulation needs to know of a run. Per stage: the seconds of F, I, W and R on the slowest
/// of its devices, collectives within the mesh included; its gradients' reduction; what its
/// microbatches hold in memory, in bytes of the fullest device. Per tensor that goes from mesh to
/// mesh: the time that was planned for it, its bytes on a device, and when within the actions it is
/// made and needed. Interfaces: meshes on the same hosts share theirs.
///
/// A tensor that goes one way only has an edge of its own, in which the other way does not exist.
/// Several stages of one mesh are joined by edges that take no time. `costs.nic_of_actor` counts
/// actors in the order of their first stages, as named schedules do; or as the plan's own schedule
/// has them. What is not in it: dispatching an action (per_action), the optimizer on a device where
/// it takes time.
ScheduleCosts plan_costs(const TrainingPlan& plan, const OpSeconds& seconds);

/// How the plan's programs move tensors: what to pass to simulate() to foretell its steps.
SimulationOptions plan_options(const TrainingPlan& plan);

/// Gives the plan's stages and passes these times; R in proportion to F. When tensors are made and
/// needed stays in proportion too. Throws Error(kInvalidArgument) unless there is one for each
/// stage of the partition.
void scale_to(ScheduleCosts& costs, const TrainingPlan& plan,
              std::span<const MeasuredStage> measured);

}  // namespace weft::mesh

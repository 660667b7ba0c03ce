#pragma once

#include <span>

#include "mesh/plan/training_plan.h"
#include "mesh/runtime/step.h"
#include "mesh/schedule/costs.h"

namespace weft::apps {

/// What stages and edges of a plan cost on emulated devices, by what their ops state: for the
/// search. `device_flops`: FLOP/s for ops that state no seconds; 0: they take no time.
mesh::ScheduleCosts emulated_costs(const mesh::TrainingPlan& plan, double device_flops = 0);

/// The same on real devices: what was measured per stage and kind of action, spread over a stage's
/// ops by their FLOPs. F, I and W must all be there.
mesh::ScheduleCosts measured_costs(const mesh::TrainingPlan& plan,
                                   std::span<const mesh::ActionTime> measured);

/// Seconds of a step by playing the plan's programs, every device for itself, with the same times.
double emulated_step(const mesh::TrainingPlan& plan, double device_flops = 0);
/// For which the device computes that computes most in a step.
double emulated_busiest(const mesh::TrainingPlan& plan, double device_flops = 0);
double measured_step(const mesh::TrainingPlan& plan, std::span<const mesh::ActionTime> measured);

}  // namespace weft::apps

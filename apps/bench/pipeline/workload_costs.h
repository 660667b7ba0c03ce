#pragma once

#include <span>

#include "mesh/plan/training_plan.h"
#include "mesh/runtime/step.h"
#include "mesh/schedule/costs.h"

namespace weft::apps {

/// Returns the costs of a plan's stages and edges on emulated devices, by the seconds that its ops
/// state; for the search. `device_flops` is the FLOP/s for ops without seconds; 0: they take no
/// time.
mesh::ScheduleCosts emulated_costs(const mesh::TrainingPlan& plan, double device_flops = 0);

/// Returns the costs on real devices: measured times per stage and kind of action, spread over a
/// stage's ops by FLOPs. Needs times of F, I and W.
mesh::ScheduleCosts measured_costs(const mesh::TrainingPlan& plan,
                                   std::span<const mesh::ActionTime> measured);

/// Returns the seconds of a step by playing the plan's programs on all devices.
double emulated_step(const mesh::TrainingPlan& plan, double device_flops = 0);
/// Returns the compute seconds of the busiest device in a step.
double emulated_busiest(const mesh::TrainingPlan& plan, double device_flops = 0);
double measured_step(const mesh::TrainingPlan& plan, std::span<const mesh::ActionTime> measured);

}  // namespace weft::apps

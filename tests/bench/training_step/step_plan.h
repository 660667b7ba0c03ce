#pragma once

#include "mesh/plan/training_plan.h"
#include "tests/bench/training_step/step_model.h"

namespace weft::test {

/// Returns the plan of a run that trains `model` on one device, with one microbatch a step.
mesh::TrainingPlan step_plan(const StepModel& model);

}  // namespace weft::test

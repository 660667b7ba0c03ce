#pragma once

#include "actors/launch/app_main.h"
#include "apps/train/training_app.h"

namespace weft::apps {

/// Handles `weft plan`: prints the plan as text or JSON, or what the options of `run.more` ask for;
/// see PlanOptions. Returns the exit code. Throws as plan_run() does, and Error(kInvalidArgument)
/// for an option with an unknown device, mesh or layout.
int plan_training(const actors::AppRun& run, TrainingApp& app);

}  // namespace weft::apps

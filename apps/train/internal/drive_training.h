#pragma once

#include "actors/cluster/cluster.h"
#include "actors/launch/app_main.h"
#include "apps/train/training_app.h"

namespace weft::apps {

/// Runs the driver of a training run: prepares the data, starts the devices on `cluster` and
/// trains. A restarted driver continues from the run's folder. Returns the exit code. Throws the
/// errors of plan_run(), of the app and of train(), and Error(kFailedPrecondition) if the plan is
/// not that of the check. Driver's thread only.
int drive_training(actors::Cluster& cluster, const actors::AppRun& run, TrainingApp& app);

}  // namespace weft::apps

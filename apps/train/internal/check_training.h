#pragma once

#include "actors/launch/app_main.h"
#include "apps/train/training_app.h"

namespace weft::apps {

/// Handles `weft check`: reads and plans the run file, and prints a summary as text or JSON,
/// nothing if `run.quiet`. Returns the exit code. Throws as plan_run() does.
int check_training(const actors::AppRun& run, TrainingApp& app);

}  // namespace weft::apps

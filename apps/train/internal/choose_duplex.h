#pragma once

#include "apps/train/run_config.h"
#include "apps/train/training_app.h"

namespace weft::apps {

/// Returns the plan of a run on an empty cluster of the hosts that it names.
mesh::TrainingPlan plan_of(const RunConfig& config);

/// Decides `duplex: auto`: takes the choice whose programs, played, have the shortest step; off if
/// that gains less than 2 %. Sets the layout, and the model of its rows. Choices that the layout,
/// the batch or the model does not allow are left out. Leaves a layout without `auto` alone.
void choose_duplex(const ConfigNode& root, RunConfig& config, TrainingApp& app);

}  // namespace weft::apps

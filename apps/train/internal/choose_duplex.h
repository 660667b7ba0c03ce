#pragma once

#include "apps/train/run_config.h"
#include "apps/train/training_app.h"

namespace weft::apps {

/// Returns the plan of a run on an empty cluster of the hosts that it names.
mesh::TrainingPlan plan_of(const RunConfig& config);

/// Resolves `duplex: auto` to the choice with the shortest simulated step; off if that gains less
/// than 2 %. Updates the layout in `config` and the model in `app`. Skips choices that the layout,
/// the batch or the model does not allow. Does nothing to a layout without `auto`.
void choose_duplex(const ConfigNode& root, RunConfig& config, TrainingApp& app);

}  // namespace weft::apps

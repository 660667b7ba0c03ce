#pragma once

#include <cstdint>
#include <string>

#include "actors/launch/cluster_config.h"
#include "apps/train/training_app.h"
#include "apps/train/training_config.h"
#include "core/config/config_document.h"
#include "mesh/plan/layout_config.h"
#include "mesh/plan/training_plan.h"

namespace weft::apps {

/// A whole run file, as a training app understands it. A value.
struct RunConfig {
  std::string name;
  std::uint64_t seed = 1;
  actors::ClusterConfig cluster;
  actors::RecoveryConfig recovery;
  mesh::LayoutConfig layout;
  TrainingConfig training;
  CheckpointConfig checkpoint;
  ModelDescription model;  ///< Read by the app.

  BatchShape batch() const { return {training.batch / layout.microbatches, layout.microbatches}; }
};

/// A run file, and the plan for an empty cluster of the hosts that it names.
struct PlannedRun {
  RunConfig config;
  mesh::TrainingPlan plan;
};

/// Reads every section, the app's own among them, without planning: for keys_read_by().
void read_run_file(const ConfigDocument& document, TrainingApp& app);

/// Reads every section, the app's own among them, and makes the plan, so that nothing that can be
/// known beforehand fails later. Throws Error(kInvalidConfig) with all problems found.
PlannedRun plan_run(const ConfigDocument& document, TrainingApp& app);

}  // namespace weft::apps

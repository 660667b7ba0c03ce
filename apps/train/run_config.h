#pragma once

#include <cstdint>
#include <string>

#include "actors/launch/app_main.h"
#include "actors/launch/cluster_config.h"
#include "apps/train/training_app.h"
#include "apps/train/training_config.h"
#include "core/config/config_document.h"
#include "core/device/device_config.h"
#include "mesh/plan/parallel_config.h"
#include "mesh/plan/plan_conditions.h"
#include "mesh/plan/training_plan.h"

namespace weft::apps {

/// Contents of a run file of a training app.
struct RunConfig {
  std::string name;
  std::uint64_t seed = 1;
  actors::ClusterConfig cluster;
  DeviceConfig device;
  actors::RecoveryConfig recovery;
  mesh::ParallelConfig layout;
  mesh::PlanConditions conditions;  ///< Without places of devices, which are not known yet.
  TrainingConfig training;
  CheckpointConfig checkpoint;
  ModelDescription model;  ///< Result of TrainingApp::describe_model().

  BatchShape batch() const {
    return {training.batch / layout.step_microbatches(), layout.step_microbatches()};
  }
};

/// Run file and its plan for an empty cluster of the hosts that it names.
struct PlannedRun {
  RunConfig config;
  mesh::TrainingPlan plan;
};

/// Reads every section, the app's included, without planning. Used by keys_read_by().
void read_run_file(const ConfigDocument& document, TrainingApp& app);

/// Reads every section, the app's included, and makes the plan, so that all predictable errors are
/// found before the run starts. Throws Error(kInvalidConfig) with all problems found.
PlannedRun plan_run(const ConfigDocument& document, TrainingApp& app);
/// Plans the run file of `run`. Throws Error(kInvalidConfig) also if there is none.
PlannedRun plan_run(const actors::AppRun& run, TrainingApp& app);

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "actors/launch/cluster_config.h"
#include "apps/train/training_app.h"
#include "apps/train/training_config.h"
#include "mesh/plan/layout_config.h"

namespace weft::apps {

/// A whole run file, as a training app understands it. A value.
struct RunConfig {
  std::string name;
  std::uint64_t seed = 1;
  actors::ClusterConfig cluster;
  mesh::LayoutConfig layout;
  TrainingConfig training;
  CheckpointConfig checkpoint;
  ModelDescription model;  ///< Read by the app.

  BatchShape batch() const { return {training.batch / layout.microbatches, layout.microbatches}; }
};

/// Reads every section, the app's own among them, and makes the plan for an empty cluster of those hosts, so that
/// nothing that can be known beforehand fails later. Throws Error(kInvalidConfig) with all problems found.
RunConfig read_run_config(const std::filesystem::path& file, std::span<const std::string> overrides, TrainingApp& app);

/// The plan on the hosts that the configuration names.
mesh::TrainingPlan plan_of(const RunConfig& config);

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/config/config_node.h"

namespace weft::apps {

/// The `training:` section.
struct TrainingConfig {
  std::int64_t steps = 300;
  std::int64_t batch = 32;  ///< Rows (sequences, pictures) per step, over all microbatches.
  double learning_rate = 1e-3;
  double min_learning_rate = 1e-4;
  std::int64_t warmup_steps = 20;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double clip_norm = 1.0;  ///< Largest gradient norm; 0: no clipping.
  /// Most consecutive steps with non-finite gradients, whose updates are skipped, before the run
  /// ends.
  std::int64_t max_skipped_updates = 10;
  std::int64_t validate_every = 50;  ///< Steps between validations. The first and the last step are
                                     ///< validated too. 0: never.
  std::int64_t validation_batches = 4;

  friend bool operator==(const TrainingConfig&, const TrainingConfig&) = default;
};

/// The `checkpoint:` section.
struct CheckpointConfig {
  std::int64_t every = 100;  ///< Steps between checkpoints. The last step is saved too. 0: never.
  int keep = 2;
  /// Bytes of a checkpoint that the driver holds at a time.
  std::uint64_t buffer = std::uint64_t{256} << 20;
  /// True if training continues while a checkpoint is written, if memory suffices for a copy of
  /// parameters and moments.
  bool background = true;
  /// True if the parameters of the step with the least validation loss are kept beside the
  /// checkpoints.
  bool best = false;
  /// Path of a checkpoint, a folder of checkpoints, or a run's folder.
  std::optional<std::filesystem::path> resume = {};

  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

/// Reads and finishes the section.
TrainingConfig parse_training(const ConfigNode& node);
CheckpointConfig parse_checkpoint(const ConfigNode& node);

/// Returns the learning rate of a step, counted from 1: linear from 0 to the full rate in
/// `warmup_steps`, then half a cosine down to the minimum at the last step.
double learning_rate(const TrainingConfig& config, std::int64_t step);

/// Returns true if validation follows this step, counted from 1.
bool validates_after(const TrainingConfig& config, std::int64_t step);

}  // namespace weft::apps

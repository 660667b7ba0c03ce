#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/config/config_node.h"

namespace weft::apps {

/// The `training:` section. A value.
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
  double clip_norm = 1.0;  ///< 0: gradients are not clipped.
  /// An update whose gradients are not finite is skipped; the run ends when so many steps in a row
  /// have come to that.
  std::int64_t max_skipped_updates = 10;
  std::int64_t validate_every = 50;  ///< Also after the first and the last step. 0: never.
  std::int64_t validation_batches = 4;

  friend bool operator==(const TrainingConfig&, const TrainingConfig&) = default;
};

/// The `checkpoint:` section. A value.
struct CheckpointConfig {
  std::int64_t every = 100;  ///< Steps; also after the last one. 0: never.
  int keep = 2;
  /// Bytes that the driver holds of a checkpoint at a time.
  std::uint64_t buffer = std::uint64_t{256} << 20;
  /// Training goes on while one is written, where memory allows a copy of parameters and moments.
  bool background = true;
  /// The parameters of the step with the least validation loss are kept beside the checkpoints.
  bool best = false;
  /// A checkpoint, a folder of them, or a run's folder.
  std::optional<std::filesystem::path> resume = {};

  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

/// Reads and finishes the section.
TrainingConfig parse_training(const ConfigNode& node);
CheckpointConfig parse_checkpoint(const ConfigNode& node);

/// The learning rate of a step, which counts from 1: linear from 0 to the full rate in
/// `warmup_steps`, then half a cosine down to the least, reached in the last step.
double learning_rate(const TrainingConfig& config, std::int64_t step);

/// Whether validation belongs to this step (which counts from 1).
bool validates_after(const TrainingConfig& config, std::int64_t step);

}  // namespace weft::apps

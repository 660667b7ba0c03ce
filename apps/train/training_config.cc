#include "apps/train/training_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft::apps {

TrainingConfig parse_training(const ConfigNode& node) {
  TrainingConfig c;
  // Limits that keep products of these and of a model's sizes within 64 bits.
  constexpr std::int64_t kMaxSteps = std::int64_t{1} << 40, kMaxRows = 1 << 30;
  node.require("steps", c.steps, KeyDescription("Optimizer steps of the run").unit("steps"),
               {.min = 1, .max = kMaxSteps});
  node.require(
      "batch", c.batch,
      KeyDescription("Rows (sequences, pictures) of a step, over all microbatches").unit("rows"),
      {.min = 1, .max = kMaxRows});
  node.require("learning_rate", c.learning_rate, "The highest learning rate, after the warm-up",
               {.min = 0.0});
  const bool has_minimum =
      node.read("min_learning_rate", c.min_learning_rate,
                "The learning rate of the last step: half a cosine leads down to it", {.min = 0.0});
  node.read("warmup_steps", c.warmup_steps,
            KeyDescription("Steps in which the learning rate rises from 0").unit("steps"),
            {.min = 0, .max = kMaxSteps});
  node.read("weight_decay", c.weight_decay, "Weight decay of AdamW", {.min = 0.0});
  node.read("beta1", c.beta1, "Decay of AdamW's first moment", {.min = 0.0, .max = 0.9999999});
  node.read("beta2", c.beta2, "Decay of AdamW's second moment", {.min = 0.0, .max = 0.9999999});
  node.read("epsilon", c.epsilon, "What AdamW adds to the root of the second moment",
            {.min = 1e-30});
  node.read("clip_norm", c.clip_norm, "Gradients of a larger norm are scaled down to it; 0: never",
            {.min = 0.0});
  node.read("max_skipped_updates", c.max_skipped_updates,
            KeyDescription("Steps in a row whose gradients may not be finite; then the run ends")
                .unit("steps"),
            {.min = 1, .max = kMaxSteps});
  node.read("validate_every", c.validate_every,
            KeyDescription(
                "How often the loss on held-out rows is measured, also after the first and the "
                "last step; 0: never")
                .unit("steps"),
            {.min = 0, .max = kMaxSteps});
  node.read("validation_batches", c.validation_batches,
            KeyDescription("Batches of held-out rows that one validation measures").unit("batches"),
            {.min = 1, .max = kMaxRows});
  node.finish();
  if (!has_minimum) c.min_learning_rate = std::min(c.min_learning_rate, c.learning_rate);
  if (c.min_learning_rate > c.learning_rate)
    node.at("min_learning_rate")
        .fail(fmt::format("min_learning_rate {} is above learning_rate {}", c.min_learning_rate,
                          c.learning_rate));
  return c;
}

CheckpointConfig parse_checkpoint(const ConfigNode& node) {
  CheckpointConfig c;
  node.read("every", c.every,
            KeyDescription("How often a checkpoint is written, also after the last step; 0: never")
                .unit("steps"),
            {.min = 0});
  node.read("keep", c.keep, KeyDescription("Newest checkpoints that are kept").unit("checkpoints"),
            {.min = 1, .max = 1000});
  node.read_bytes("buffer", c.buffer, "What the driver holds of a checkpoint at a time",
                  {.min = 1});
  node.read("background", c.background,
            "Whether training goes on while a checkpoint is written, if memory allows a copy (12 "
            "bytes a parameter)");
  node.read("best", c.best,
            "Whether the parameters of the step with the least validation loss are kept");
  if (const auto resume =
          node.find("resume", KeyDescription("The run or checkpoint to go on from").type("path"));
      resume && !resume->as<std::string>().empty())
    c.resume = resume->as_path();
  node.finish();
  return c;
}

double learning_rate(const TrainingConfig& config, std::int64_t step) {
  if (step <= config.warmup_steps) return config.learning_rate * step / config.warmup_steps;
  const double rest = std::max<std::int64_t>(1, config.steps - config.warmup_steps);
  const double done = std::min(1.0, (step - config.warmup_steps) / rest);
  return config.min_learning_rate + 0.5 * (config.learning_rate - config.min_learning_rate) *
                                        (1 + std::cos(std::numbers::pi * done));
}

bool validates_after(const TrainingConfig& config, std::int64_t step) {
  if (config.validate_every == 0) return false;
  return step == 1 || step == config.steps || step % config.validate_every == 0;
}

}  // namespace weft::apps

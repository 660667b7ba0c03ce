#include "apps/train/training_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft::apps {

TrainingConfig parse_training(const ConfigNode& node) {
  TrainingConfig c;
  // Products of these, and of a model's sizes, stay within 64 bits.
  constexpr std::int64_t kMaxSteps = std::int64_t{1} << 40, kMaxRows = 1 << 30;
  node.require("steps", c.steps, {.min = 1, .max = kMaxSteps});
  node.require("batch", c.batch, {.min = 1, .max = kMaxRows});
  node.require("learning_rate", c.learning_rate, {.min = 0.0});
  const bool has_minimum = node.read("min_learning_rate", c.min_learning_rate, {.min = 0.0});
  node.read("warmup_steps", c.warmup_steps, {.min = 0, .max = kMaxSteps});
  node.read("weight_decay", c.weight_decay, {.min = 0.0});
  node.read("beta1", c.beta1, {.min = 0.0, .max = 0.9999999});
  node.read("beta2", c.beta2, {.min = 0.0, .max = 0.9999999});
  node.read("epsilon", c.epsilon, {.min = 1e-30});
  node.read("clip_norm", c.clip_norm, {.min = 0.0});
  node.read("max_skipped_updates", c.max_skipped_updates, {.min = 1, .max = kMaxSteps});
  node.read("validate_every", c.validate_every, {.min = 0, .max = kMaxSteps});
  node.read("validation_batches", c.validation_batches, {.min = 1, .max = kMaxRows});
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
  node.read("every", c.every, {.min = 0});
  node.read("keep", c.keep, {.min = 1, .max = 1000});
  node.read_bytes("buffer", c.buffer, {.min = 1});
  node.read("background", c.background);
  node.read("best", c.best);
  if (const auto resume = node.find("resume"); resume && !resume->as<std::string>().empty())
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

#include "apps/train/training_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/config/config_document.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

TrainingConfig parse(const std::string& yaml) {
  const auto document = ConfigDocument::parse(yaml, "c.yaml");
  return parse_training(document.root());
}

std::string refusal(const std::string& yaml) {
  return test::error_message(ErrorCode::kInvalidConfig, [&] { parse(yaml); });
}

TEST(TrainingConfig, ReadsItsSectionAndKeepsDefaults) {
  const TrainingConfig config =
      parse("{steps: 10, batch: 8, learning_rate: 3e-4, clip_norm: 0, max_skipped_updates: 3}");
  EXPECT_EQ(config.steps, 10);
  EXPECT_DOUBLE_EQ(config.learning_rate, 3e-4);
  EXPECT_EQ(config.clip_norm, 0.0);
  EXPECT_EQ(config.max_skipped_updates, 3);
  EXPECT_EQ(config.beta2, TrainingConfig{}.beta2);
}

TEST(TrainingConfig, SaysWhatIsWrongWithPosition) {
  EXPECT_THAT(refusal("{steps: 10, batch: 8, learning_rate: 1e-3, wheight_decay: 0}"),
              ::testing::HasSubstr("weight_decay"));
  EXPECT_THAT(refusal("{batch: 8, learning_rate: 1e-3}"), ::testing::HasSubstr("steps"));
  EXPECT_THAT(refusal("{steps: 10, batch: 8,\n learning_rate: 1e-3, min_learning_rate: 2e-3}"),
              ::testing::HasSubstr("c.yaml:2:"));
  EXPECT_THAT(refusal("{steps: 0, batch: many, learning_rate: 1e-3}"),
              ::testing::HasSubstr("batch"));
}

TEST(TrainingConfig, ASmallLearningRateNeedsNoMinimum) {
  EXPECT_DOUBLE_EQ(parse("{steps: 10, batch: 8, learning_rate: 1e-5}").min_learning_rate, 1e-5);
}

TEST(CheckpointConfig, ReadsItsSection) {
  const auto document =
      ConfigDocument::parse("{every: 5, keep: 3, best: true, resume: runs/a}", "/somewhere/c.yaml");
  const CheckpointConfig config = parse_checkpoint(document.root());
  EXPECT_EQ(config.every, 5);
  EXPECT_TRUE(config.best);
  EXPECT_EQ(config.resume, "/somewhere/runs/a") << "a path counts from the file that it stands in";
}

TEST(LearningRate, WarmsUpLinearlyThenFallsToTheLeast) {
  TrainingConfig config;
  config.steps = 120;
  config.warmup_steps = 20;
  config.learning_rate = 1e-3;
  config.min_learning_rate = 1e-4;
  EXPECT_DOUBLE_EQ(learning_rate(config, 1), 5e-5);
  EXPECT_DOUBLE_EQ(learning_rate(config, 20), 1e-3);
  EXPECT_NEAR(learning_rate(config, 70), 5.5e-4, 1e-12);
  EXPECT_NEAR(learning_rate(config, 120), 1e-4, 1e-12);
  EXPECT_NEAR(learning_rate(config, 500), 1e-4, 1e-12);
  for (int step = 21; step <= 120; ++step)
    EXPECT_LT(learning_rate(config, step), learning_rate(config, step - 1));
  config.warmup_steps = 0;
  EXPECT_LE(learning_rate(config, 1), 1e-3);
  EXPECT_GT(learning_rate(config, 1), 9.9e-4);
}

TEST(Validation, ComesAfterTheFirstTheLastAndEveryFewSteps) {
  TrainingConfig config;
  config.steps = 25;
  config.validate_every = 10;
  std::vector<int> after;
  for (int step = 1; step <= 25; ++step)
    if (validates_after(config, step)) after.push_back(step);
  EXPECT_EQ(after, (std::vector<int>{1, 10, 20, 25}));
  config.validate_every = 0;
  EXPECT_FALSE(validates_after(config, 25));
}

}  // namespace
}  // namespace weft::apps

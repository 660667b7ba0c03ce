#include "apps/train/best_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/run_files/safetensors.h"
#include "tests/training/loop/loop_test.h"

namespace weft::apps {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(LoopTest, TheParametersOfTheLeastValidationLossAreKeptAndShownBesideTheLast) {
  std::int64_t best_step = 0;
  std::vector<float> best, last;
  run_.report_on_model = [&](const TrainedValues& trained, const std::filesystem::path&) {
    best_step = trained.best_step;
    EXPECT_EQ(trained.step, 12);
    const auto copy = [](const std::vector<TensorView>& of) {
      return std::vector<float>(of[0].values.begin(), of[0].values.end());
    };
    last = copy(trained.parameters);
    best = copy(*trained.best);
    return FinalReport{.text = "shown", .figures = {{"test_loss", 0.25}}};
  };
  run_.checkpoint.best = true;
  run_.training.validate_every = 2;
  run_.training.learning_rate = run_.training.min_learning_rate = 0.8;  // the loss increases
  const RunSummary summary = train_in(root_ / "whole");
  EXPECT_LT(summary.best_validation_step, 12);
  EXPECT_EQ(best_step, summary.best_validation_step);
  EXPECT_NE(best, last);
  EXPECT_THAT(shown_, AllOf(HasSubstr("best validation"), HasSubstr("best.safetensors ")));
  const auto json = nlohmann::json::parse(read(root_ / "whole/summary.json"));
  EXPECT_EQ(json["best_validation_step"], best_step);
  EXPECT_EQ(json["figures"]["test_loss"], 0.25);

  // The best values survive a resume, in place or elsewhere, and a death in between.
  const std::string file = read(root_ / "whole/best.safetensors");
  stop_in_step_ = best_step + 1;
  train_in(root_ / "part");
  EXPECT_EQ(read(root_ / "part/best.safetensors"), file);
  stop_in_step_ = 0;
  run_.checkpoint.resume = root_ / "part";
  train_in(root_ / "elsewhere");
  EXPECT_EQ(best_step, summary.best_validation_step);
  EXPECT_EQ(read(root_ / "elsewhere/best.safetensors"), file);
  // Best values of a step after the resumed checkpoint are computed again.
  run_.checkpoint.resume.reset();
  stop_in_step_ = 1;
  train_in(root_ / "early");
  stop_in_step_ = 0;
  fs::copy_file(root_ / "whole/best.safetensors", root_ / "early/best.safetensors",
                fs::copy_options::overwrite_existing);
  run_.checkpoint.resume = root_ / "early";
  train_in(root_ / "early");
  EXPECT_EQ(read(root_ / "early/best.safetensors"), file);
}

TEST_F(LoopTest, BestParametersThatTheDiskRefusesAreToldAndThoseBeforeStay) {
  run_.checkpoint.best = true;
  run_.checkpoint.every = 0;
  run_.training.validate_every = 4;
  std::optional<FileSizeLimit> full;
  before_step_ = [&](std::int64_t step) {
    if (step == 2) full.emplace(10'000);
    if (step == 12) full.reset();
  };
  const RunSummary summary = train_in(root_ / "run");
  EXPECT_EQ(summary.best_validation_step, 12);
  EXPECT_THAT(shown_, HasSubstr("the parameters of step 4, the best so far, are not kept: cannot"));
  EXPECT_EQ(SafetensorsFile(root_ / "run/best.safetensors").metadata().at("step"), "12");
  EXPECT_FALSE(fs::exists(root_ / "run/best.safetensors.tmp"));
}

}  // namespace
}  // namespace weft::apps

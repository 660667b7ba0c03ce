// Tests `weft run` of the shipped U-Transformer run files on real processes, with small models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/run_files/metrics.h"
#include "tests/support/real_processes.h"

namespace weft::test {
namespace {
namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class UTransformerRun : public ::testing::TestWithParam<std::string> {
 protected:
  UTransformerRun() : processes_("u_transformer") {
    fs::copy_file(fs::path(WEFT_SOURCE_DIR) / "apps/u_transformer" / (GetParam() + ".yaml"),
                  processes_.directory() / "run.yaml");
  }
  fs::path path(const std::string& name) const { return processes_.directory() / name; }

  RealProcesses processes_;
};

TEST_P(UTransformerRun, TrainsAndShowsWhatItSees) {
  if (!fs::exists("/usr/share/mricron/templates/ch2.nii.gz"))
    GTEST_SKIP() << "the Debian package mricron-data is not installed";
  auto& run = processes_.run(
      "weft", {"run", "run.yaml", "--out", "out", "--set", "training.steps=6", "--set",
               "training.validate_every=3", "--set",
               "model={height: 56, width: 48, levels: 3, channels: 8, head_dim: 4}", "--set",
               "data={reduce: 4}", "--set", "training.validation_batches=1"});
  ASSERT_EQ(run.wait(), 0) << run.text();
  EXPECT_THAT(
      run.text(),
      AllOf(HasSubstr("step 6/6"), HasSubstr("slices/s"), HasSubstr("guessing by frequency has"),
            HasSubstr("Dice, 24 slices"), HasSubstr("cerebellum"), HasSubstr("pictures/")));
  const auto metrics = apps::read_metrics(path("out") / "metrics.jsonl");
  ASSERT_EQ(metrics.size(), 6u);
  EXPECT_EQ(metrics[0].unit, "slices");
  EXPECT_GT(metrics[0].resharded_bytes, 0u);
  const auto dice = nlohmann::json::parse(read_file(path("out") / "dice.json"));
  EXPECT_GT(dice["nearest"]["mean of lobes"].get<double>(), 0.5);
  EXPECT_GE(dice["model"]["outside"].get<double>(), 0.0);
  EXPECT_EQ(
      std::distance(fs::directory_iterator(path("out") / "pictures"), fs::directory_iterator()),
      24);
  EXPECT_THAT(read_file(path("out") / "scores.txt"), HasSubstr("mean of lobes"));
  EXPECT_TRUE(processes_.none_left());
}

TEST_P(UTransformerRun, PlanShowsTheSkips) {
  auto& plan = processes_.run("weft", {"plan", "run.yaml"});
  ASSERT_EQ(plan.wait(), 0) << plan.text();
  EXPECT_THAT(plan.text(), HasSubstr("U-Transformer: 3 levels"));
  const auto outer_skip = HasSubstr("F down0.silu f32[2,112,96,16]: down");
  if (GetParam() == "folded") {
    EXPECT_THAT(plan.text(), AllOf(HasSubstr("3: 2 layers on outer"), Not(outer_skip)));
  } else {
    EXPECT_THAT(plan.text(), outer_skip);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, UTransformerRun,
                         ::testing::Values("two_meshes", "three_meshes", "folded"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace weft::test

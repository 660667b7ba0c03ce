// Tests `weft run` of the shipped classifier run file on real processes, with a small model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ClassifierRun, TrainsAndSaysHowGoodItIsAtTheBestStep) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"))
    GTEST_SKIP() << "the Debian package dataset-fashion-mnist is not installed";
  RealProcesses processes("classifier");
  fs::copy_file(fs::path(WEFT_SOURCE_DIR) / "apps/classifier/fashion.yaml",
                processes.directory() / "run.yaml");
  auto& run = processes.run(
      "weft", {"run", "run.yaml", "--out", "out", "--set", "training.steps=60", "--set",
               "training.warmup_steps=5", "--set", "training.validate_every=20"});
  ASSERT_EQ(run.wait(), 0) << run.text();
  EXPECT_THAT(run.text(), AllOf(HasSubstr("step 60/60"), HasSubstr("pictures/s"),
                                HasSubstr("best step"), HasSubstr("ankle boot")));
  const auto summary = nlohmann::json::parse(read_file(processes.directory() / "out/summary.json"));
  EXPECT_GT(summary["figures"]["test_accuracy_at_best_step"].get<double>(), 0.5);
  EXPECT_TRUE(fs::exists(processes.directory() / "out/best.safetensors"));
  EXPECT_TRUE(processes.none_left());
}

}  // namespace
}  // namespace weft::test

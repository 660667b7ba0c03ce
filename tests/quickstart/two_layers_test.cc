// Tests `weft run` of the shipped two_layers run file on real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(TwoLayersRun, LearnsAProduct) {
  RealProcesses processes("two_layers");
  fs::copy_file(fs::path(WEFT_SOURCE_DIR) / "apps/two_layers/two_layers.yaml",
                processes.directory() / "run.yaml");
  auto& run = processes.run("weft", {"run", "run.yaml", "--out", "out"});
  ASSERT_EQ(run.wait(), 0) << run.text();
  EXPECT_THAT(run.text(), HasSubstr("points/s"));
  const auto summary = nlohmann::json::parse(read_file(processes.directory() / "out/summary.json"));
  // A model that always returns 0 has loss 1/9.
  EXPECT_LT(summary["last_validation_loss"].get<double>(), 0.02);
  EXPECT_TRUE(processes.none_left());
}

TEST(TwoLayersRun, ItsOwnSectionIsCheckedAsAllOthers) {
  RealProcesses processes("two_layers_check");
  fs::copy_file(fs::path(WEFT_SOURCE_DIR) / "apps/two_layers/two_layers.yaml",
                processes.directory() / "run.yaml");
  auto& check = processes.run("weft", {"check", "run.yaml", "--set", "model.widht=3"});
  EXPECT_EQ(check.wait(), 2);
  EXPECT_THAT(check.text(), HasSubstr("did you mean 'width'?"));
}

}  // namespace
}  // namespace weft::test

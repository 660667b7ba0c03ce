// Tests that the run files of apps/gpt/examples are valid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(Examples, EveryRunFileHasNoMistakes) {
  RealProcesses processes("examples");
  int files = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(WEFT_SOURCE_DIR) / "apps/gpt/examples")) {
    auto& check = processes.run("weft", {"check", entry.path().string()});
    EXPECT_EQ(check.wait(), 0) << check.text();
    EXPECT_THAT(check.text(), HasSubstr(": valid\n"));
    ++files;
  }
  EXPECT_GE(files, 6);
}

TEST(Examples, TheLayoutOfThreeDimensionsTrains) {
  RealProcesses processes("example_3d");
  auto& run = processes.run(
      "weft", {"run", (fs::path(WEFT_SOURCE_DIR) / "apps/gpt/examples/layout_3d.yaml").string(),
               "--out", "out", "--set", "training.steps=2", "--set", "training.warmup_steps=1",
               "--set", "data.tokenizer=bytes", "--set", "data.vocabulary=null"});
  EXPECT_EQ(run.wait(), 0) << run.text();
  EXPECT_THAT(run.text(), HasSubstr("done: 2 of 2 steps"));
}

}  // namespace
}  // namespace weft::test

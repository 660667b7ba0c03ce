#include "apps/select/progress_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using testing::HasSubstr;

class ProgressFileTest : public testing::Test {
 protected:
  Error error_with(const std::string& content) {
    std::ofstream(folder.path() / "progress.json") << content;
    return test::error_of([&] { ProgressFile file(folder.path()); });
  }

  test::ScratchFolder folder;
};

TEST_F(ProgressFileTest, ReturnsTheSelectionWithTheSameDigest) {
  SelectionProgress progress;
  progress.decided = {4, 0};
  progress.step_seconds = {0.5, 0.25};
  progress.bounding_done = true;
  progress.round = 1;
  progress.rounds = {{5, 9, 40, 1.5}};
  ProgressFile(folder.path()).write(progress, "one");
  const ProgressFile file(folder.path());
  EXPECT_EQ(file.selection("other"), std::nullopt);
  const auto read = file.selection("one");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->decided, progress.decided);
  EXPECT_EQ(read->step_seconds, progress.step_seconds);
  EXPECT_TRUE(read->bounding_done);
  EXPECT_EQ(read->round, 1U);
  ASSERT_EQ(read->rounds.size(), 1U);
  EXPECT_EQ(read->rounds[0].points, 40U);
}

TEST_F(ProgressFileTest, DamagedFilesAreRefusedWithTheirPathAndARemedy) {
  SelectionProgress progress;
  ProgressFile(folder.path()).write(progress, "one");
  std::ifstream stream(folder.path() / "progress.json");
  const std::string whole(std::istreambuf_iterator<char>(stream), {});
  std::string without_digest = whole;
  without_digest.replace(whole.find("\"digest\""), 8, "\"digits\"");
  for (const std::string& content :
       {std::string(), whole.substr(0, whole.size() / 2), std::string("[]"), std::string("7"),
        std::string(R"({"graph": {}})"), std::string(R"({"selection": {}})"), without_digest}) {
    SCOPED_TRACE(content);
    const Error error = error_with(content);
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_THAT(error.message(), HasSubstr((folder.path() / "progress.json").string()));
    EXPECT_THAT(error.message(), HasSubstr("remove it"));
  }
}

}  // namespace
}  // namespace weft::apps

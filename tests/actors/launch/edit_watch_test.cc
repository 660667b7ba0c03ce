#include "actors/launch/edit_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/sha256.h"

namespace weft::actors {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class EditWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / "edit_watch";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  fs::path folder_;
};

TEST_F(EditWatchTest, TellsAnEditOnce) {
  const fs::path file = write("a.yaml", "steps: 10\n");
  EditWatch watch({{"a.yaml", file, sha256_file(file)}});
  EXPECT_THAT(watch.poll_edits(), IsEmpty());
  write("a.yaml", "steps: 200\n");
  EXPECT_THAT(watch.poll_edits(), ElementsAre("a.yaml was edited"));
  write("a.yaml", "steps: 3000\n");
  EXPECT_THAT(watch.poll_edits(), IsEmpty());
}

TEST_F(EditWatchTest, TellsAnEditBeforeTheFirstLook) {
  const fs::path file = write("a.yaml", "steps: 10\n");
  const std::string sha256 = sha256_file(file);
  write("a.yaml", "steps: 20\n");
  EXPECT_THAT(EditWatch({{"a.yaml", file, sha256}}).poll_edits(), ElementsAre("a.yaml was edited"));
}

TEST_F(EditWatchTest, TheSameContentAgainIsNoEdit) {
  const fs::path file = write("a.yaml", "steps: 10\n");
  EditWatch watch({{"a.yaml", file, sha256_file(file)}});
  EXPECT_THAT(watch.poll_edits(), IsEmpty());
  fs::remove(file);
  EXPECT_THAT(watch.poll_edits(), IsEmpty());  // an editor may be replacing the file
  write("a.yaml", "steps: 10\n");
  EXPECT_THAT(watch.poll_edits(), IsEmpty());
}

TEST_F(EditWatchTest, AFileThatStaysAwayWasRemoved) {
  const fs::path kept = write("a.yaml", "steps: 10\n");
  const fs::path file = write("b.csv", "F0\n");
  EditWatch watch({{"a.yaml", kept, sha256_file(kept)}, {"b.csv", file, sha256_file(file)}});
  EXPECT_THAT(watch.poll_edits(), IsEmpty());
  fs::remove(file);
  EXPECT_THAT(watch.poll_edits(), IsEmpty());
  EXPECT_THAT(watch.poll_edits(), ElementsAre("b.csv was removed"));
  EXPECT_THAT(watch.poll_edits(), IsEmpty());
}

}  // namespace
}  // namespace weft::actors

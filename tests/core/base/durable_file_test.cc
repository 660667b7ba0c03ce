#include "core/base/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "core/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {
namespace fs = std::filesystem;

using testing::HasSubstr;

class DurableFileTest : public testing::Test {
 protected:
  std::string content() const {
    std::ifstream in(path_);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

  const test::ScratchFolder scratch_;
  const fs::path path_ = scratch_.path() / "file";
};

TEST_F(DurableFileTest, EachWayOfWritingReplacesTheContent) {
  write_in_place(path_, "the first content");
  EXPECT_EQ(content(), "the first content");
  write_atomically(path_, "the second", 0644);
  EXPECT_EQ(content(), "the second");
  write_durably(path_, "third");
  EXPECT_EQ(content(), "third");
  write_in_place(path_, "4");
  EXPECT_EQ(content(), "4");
}

TEST_F(DurableFileTest, WritingInPlaceKeepsADevice) {
  fs::create_symlink("/dev/null", path_);
  write_in_place(path_, "text");
  EXPECT_TRUE(fs::is_character_file(path_));
  EXPECT_TRUE(fs::is_symlink(path_));
}

TEST_F(DurableFileTest, AFileThatCannotBeWrittenIsNamedWithTheReason) {
  const fs::path absent = scratch_.path() / "absent" / "file";
  fs::create_directories(path_ / "in the way");
  for (const Error& error : {test::error_of([&] { write_in_place(absent, "x"); }),
                             test::error_of([&] { write_atomically(absent, "x", 0644); }),
                             test::error_of([&] { write_durably(absent, "x"); }),
                             test::error_of([&] { rename_file(path_, absent); })}) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.message(), HasSubstr(absent.string()));
    EXPECT_THAT(error.message(), HasSubstr("No such file or directory"));
  }
}

}  // namespace
}  // namespace weft

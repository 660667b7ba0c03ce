#include "core/base/mapped_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

TEST(MappedFile, HasTheBytesOfItsFileAndMayMove) {
  const test::ScratchFolder folder;
  std::ofstream(folder.path() / "f") << "abc";
  MappedFile first(folder.path() / "f");
  const MappedFile second(std::move(first));
  ASSERT_EQ(second.bytes().size(), 3u);
  EXPECT_EQ(second.bytes()[2], std::byte{'c'});
  std::ofstream(folder.path() / "empty");
  EXPECT_TRUE(MappedFile(folder.path() / "empty").bytes().empty());
}

TEST(MappedFile, SaysWhyThereIsNone) {
  const test::ScratchFolder folder;
  EXPECT_EQ(test::error_of([&] { MappedFile(folder.path() / "none"); }).code(),
            ErrorCode::kNotFound);
  EXPECT_EQ(test::error_of([&] { MappedFile{folder.path()}; }).code(), ErrorCode::kDataLoss);
}

}  // namespace
}  // namespace weft

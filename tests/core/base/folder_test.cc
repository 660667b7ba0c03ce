#include "core/base/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {
namespace fs = std::filesystem;

TEST(MakeFolders, MakesTheParentsToo) {
  const test::ScratchFolder scratch;
  make_folders(scratch.path() / "a/b/c");
  EXPECT_TRUE(fs::is_directory(scratch.path() / "a/b/c"));
}

TEST(MakeFolders, KeepsAFolderThatExists) {
  const test::ScratchFolder scratch;
  std::ofstream(scratch.path() / "file") << "text";
  make_folders(scratch.path());
  EXPECT_TRUE(fs::exists(scratch.path() / "file"));
  fs::create_directory_symlink(scratch.path(), scratch.path() / "link");
  make_folders(scratch.path() / "link");
}

TEST(MakeFolders, AFileInTheWayIsNamedWithWhatToDo) {
  const test::ScratchFolder scratch;
  std::ofstream(scratch.path() / "file") << "text";
  for (const fs::path& folder : {scratch.path() / "file", scratch.path() / "file/below"}) {
    const Error error =
        test::error_of([&] { make_folders(folder, "choose another folder with --out"); });
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_EQ(error.message(), "cannot make the folder " + folder.string() +
                                   ": Not a directory; remove the file of that name, or of the "
                                   "name of a parent, or choose another folder with --out");
  }
}

TEST(MakeFolders, AnotherReasonIsTheSystems) {
  const Error error = test::error_of([] { make_folders("/proc/weft/logs", "give another place"); });
  EXPECT_EQ(error.message(),
            "cannot make the folder /proc/weft/logs: No such file or directory; give another "
            "place");
  EXPECT_EQ(test::error_of([] { make_folders("/proc/weft/logs"); }).message(),
            "cannot make the folder /proc/weft/logs: No such file or directory");
}

}  // namespace
}  // namespace weft

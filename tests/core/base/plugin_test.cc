#include "core/base/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre, testing::HasSubstr, testing::IsEmpty;

TEST(Plugin, FoldersOfAListAreThoseBetweenColons) {
  EXPECT_THAT(split_folders(""), IsEmpty());
  EXPECT_THAT(split_folders("/a::/b c:"), ElementsAre("/a", "/b c"));
  EXPECT_EQ(folder_list({"/a", "/b c"}), "/a, /b c");
}

TEST(Plugin, ConfiguredFoldersComeBeforeThatOfTheProgram) {
  EXPECT_THAT(plugin_folders("/mine:/ours", "/opt/weft/bin/weft"),
              ElementsAre("/mine", "/ours", "/opt/weft/lib"));
  EXPECT_THAT(plugin_folders("", ""), IsEmpty());
}

TEST(Plugin, FirstFolderThatContainsTheFileIsTaken) {
  const test::ScratchFolder scratch;
  const fs::path first = scratch.path() / "first", second = scratch.path() / "second";
  fs::create_directories(first);
  fs::create_directories(second);
  EXPECT_EQ(find_plugin("libx.so", {first, second}), std::nullopt);
  std::ofstream(second / "libx.so") << "no library";
  EXPECT_EQ(find_plugin("libx.so", {first, second}), second / "libx.so");
  std::ofstream(first / "libx.so") << "no library";
  EXPECT_EQ(find_plugin("libx.so", {first, second}), first / "libx.so");
}

TEST(Plugin, FileThatIsNoLibraryIsNamed) {
  const test::ScratchFolder scratch;
  const fs::path file = scratch.path() / "libx.so";
  std::ofstream(file) << "no library";
  EXPECT_THAT(test::error_message(ErrorCode::kFailedPrecondition,
                                  [&] { plugin_function(file, "weft_x_plugin"); }),
              HasSubstr(file.string() + " cannot be opened: "));
}

}  // namespace
}  // namespace weft

#include "apps/data/text_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/support/image_files.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(TextFiles, OfAFolderComeOneAfterTheOtherUnpacked) {
  const test::ScratchFolder scratch;
  const fs::path& root = scratch.path();
  fs::create_directories(root / "b");
  fs::create_directories(root / ".git");
  std::ofstream(root / "c.txt") << "last";
  std::ofstream(root / ".git/x") << "hidden";
  std::ofstream(root / "a.md") << "first\r\n";
  test::write_gzip(root / "b/x.rst.gz", bytes_of("packed"));
  EXPECT_THAT(files_in(root), ElementsAre(root / "a.md", root / "b/x.rst.gz", root / "c.txt"));
  EXPECT_EQ(named_text(root.string()), "first\n\npacked\n\nlast");
  EXPECT_EQ(named_text((root / "b/x.rst.gz").string()), "packed");
}

TEST(LinuxDoc, IsItsTextsWithoutTranslationsOrSaysWhatToInstall) {
  const test::ScratchFolder scratch;
  const fs::path& root = scratch.path();
  const auto refused = [&] { linux_doc_files(root); };
  EXPECT_EQ(test::error_of(refused).code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(test::error_of(refused).message(),
              HasSubstr("apt-get install --no-install-recommends linux-doc-6.1"));
  for (const char* name :
       {"vm/a.rst.gz", "translations/de/a.rst.gz", "index.rst.gz", "Changes.gz"}) {
    fs::create_directories((root / name).parent_path());
    test::write_gzip(root / name, bytes_of("text"));
  }
  EXPECT_THAT(linux_doc_files(root), ElementsAre(root / "index.rst.gz", root / "vm/a.rst.gz"));
}

}  // namespace
}  // namespace weft::apps

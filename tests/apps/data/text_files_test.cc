#include "apps/data/text_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "apps/data/token_file.h"
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
  EXPECT_EQ(load_text(root.string()), "first\n\npacked\n\nlast");
  EXPECT_EQ(load_text((root / "b/x.rst.gz").string()), "packed");
}

TEST(TextFiles, AMissingFileIsNamed) {
  const Error error = test::error_of([] { read_text("/no/such/text"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_THAT(error.message(), HasSubstr("/no/such/text"));
}

TEST(TextFiles, LineEndsOfAllKindsStayLineEndsAndAByteOrderMarkIsNoText) {
  const test::ScratchFolder scratch;
  const fs::path path = scratch.path() / "text";
  std::ofstream(path) << "\xef\xbb\xbfone\rtwo\r\nthree\r\r\nfour\r";
  EXPECT_EQ(load_text(path.string()), "one\ntwo\nthree\n\nfour\n");
  EXPECT_EQ(load_text(path.string(), TextForm::kBytes),
            "\xef\xbb\xbfone\rtwo\r\nthree\r\r\nfour\r");
}

TEST(TextFiles, BytesThatAreNoTextAreRefusedWithTheirPositionAlsoInASingleFile) {
  const test::ScratchFolder scratch;
  const auto refusal = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(scratch.path() / name, std::ios::binary) << bytes;
    const Error error = test::error_of([&] { load_text((scratch.path() / name).string()); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.message();
  };
  using namespace std::string_literals;
  EXPECT_THAT(refusal("nul.txt", "abc\0def"s),
              ::testing::AllOf(HasSubstr("nul.txt"), HasSubstr("byte 3 is zero"),
                               HasSubstr("tokenizer: bytes")));
  EXPECT_THAT(refusal("latin1.txt", "caf\xe9 au lait"),
              ::testing::AllOf(HasSubstr("byte 3 is 0xe9"), HasSubstr("iconv")));
  EXPECT_THAT(refusal("cut.txt", "ab\xe2\x82"), HasSubstr("byte 2 is 0xe2"));
  EXPECT_EQ(load_text((scratch.path() / "nul.txt").string(), TextForm::kBytes), "abc\0def"s);
}

TEST(TextFiles, TokenIdsAreRefusedAsTextAlsoAsBytes) {
  const test::ScratchFolder scratch;
  const fs::path ours = scratch.path() / "train.tokens", theirs = scratch.path() / "train.bin",
                 text = scratch.path() / "words.bin";
  TokenFile::write(ours, std::vector<std::int32_t>{1, 2, 3}, 10);
  std::ofstream(theirs, std::ios::binary) << std::string("\x05\0\x07\x01", 4);
  std::ofstream(text) << "words";
  for (const TextForm form : {TextForm::kCharacters, TextForm::kBytes}) {
    for (const fs::path& path : {ours, theirs}) {
      const Error error = test::error_of([&] { load_text(path.string(), form); });
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.message(), HasSubstr("token ids"));
    }
    EXPECT_EQ(load_text(text.string(), form), "words");
  }
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

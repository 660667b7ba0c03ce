#include "actors/agent/binary_hashes.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "tests/support/scratch_folder.h"

namespace weft::actors {
namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::filesystem::path only_file_in(const std::filesystem::path& folder) {
  return std::filesystem::directory_iterator(folder)->path();
}

TEST(BinaryHashes, AreTakenOnceAsLongAsTheFileIsTheSame) {
  const test::ScratchFolder folder;
  const std::filesystem::path binary = folder.path() / "binary";
  const std::filesystem::path kept = folder.path() / "kept";
  std::filesystem::create_directory(kept);
  write(binary, "one");
  const std::string first = BinaryHashes(kept).sha256(binary);
  EXPECT_EQ(first, sha256_file(binary));

  // What is kept is believed, by another process too.
  const std::filesystem::path line = only_file_in(kept);
  std::string text;
  std::getline(std::ifstream(line), text);
  text.replace(text.size() - 64, 64, std::string(64, 'f'));
  write(line, text + "\n");
  EXPECT_EQ(BinaryHashes(kept).sha256(binary), std::string(64, 'f'));

  write(binary, "two");  // of the same size
  EXPECT_EQ(BinaryHashes(kept).sha256(binary), sha256_file(binary));
}

TEST(BinaryHashes, ALineThatIsNoHashIsTakenAgain) {
  const test::ScratchFolder folder;
  const std::filesystem::path binary = folder.path() / "binary";
  const std::filesystem::path kept = folder.path() / "kept";
  std::filesystem::create_directory(kept);
  write(binary, "one");
  const std::string right = BinaryHashes(kept).sha256(binary);
  const std::filesystem::path line = only_file_in(kept);
  std::string text;
  std::getline(std::ifstream(line), text);
  for (const std::string& torn : {text.substr(0, text.size() - 5), std::string(), text + "x\n"}) {
    write(line, torn);
    EXPECT_EQ(BinaryHashes(kept).sha256(binary), right) << torn;
  }
}

TEST(BinaryHashes, NeedNoFolder) {
  const test::ScratchFolder folder;
  const std::filesystem::path binary = folder.path() / "binary";
  write(binary, "one");
  EXPECT_EQ(BinaryHashes("").sha256(binary), sha256_file(binary));
  EXPECT_EQ(BinaryHashes(folder.path() / "none").sha256(binary), sha256_file(binary));
  EXPECT_THROW(BinaryHashes("").sha256(folder.path() / "missing"), Error);
}

}  // namespace
}  // namespace weft::actors

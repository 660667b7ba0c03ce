#include "actors/agent/binary_hashes.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

class BinarySha256 : public ::testing::Test {
 protected:
  BinarySha256() {
    std::filesystem::create_directory(kept_);
    write(binary_, "one");
  }
  static void write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::string take() const { return binary_sha256(binary_, kept_); }
  /// Hashes the binary until the hash is cached, which it is not just after a change. Returns the
  /// path of the cache file.
  std::filesystem::path keep() const {
    EXPECT_TRUE(
        test::eventually([&] { return !take().empty() && !std::filesystem::is_empty(kept_); }));
    return std::filesystem::directory_iterator(kept_)->path();
  }

  const test::ScratchFolder folder_;
  const std::filesystem::path binary_ = folder_.path() / "binary";
  const std::filesystem::path kept_ = folder_.path() / "kept";
};

std::string line_of(const std::filesystem::path& file) {
  std::string text;
  std::ifstream stream(file);
  std::getline(stream, text);
  return text;
}

TEST_F(BinarySha256, IsTakenOnceAsLongAsTheFileIsTheSame) {
  EXPECT_EQ(take(), sha256_file(binary_));
  EXPECT_TRUE(std::filesystem::is_empty(kept_)) << "it may change again in the same tick";

  // A cached hash is trusted, by other processes too.
  const std::filesystem::path line = keep();
  std::string text = line_of(line);
  text.replace(text.size() - 64, 64, std::string(64, 'f'));
  write(line, text + "\n");
  EXPECT_EQ(take(), std::string(64, 'f'));

  write(binary_, "two");  // same size as before
  EXPECT_EQ(take(), sha256_file(binary_));
}

TEST_F(BinarySha256, ALineThatIsNoHashIsTakenAgain) {
  const std::filesystem::path line = keep();
  const std::string text = line_of(line);
  for (const std::string& torn : {text.substr(0, text.size() - 5), std::string(), text + "x\n"}) {
    write(line, torn);
    EXPECT_EQ(take(), sha256_file(binary_)) << torn;
  }
}

TEST_F(BinarySha256, NeedsNoFolder) {
  keep();  // the cache folder exists and would be used
  EXPECT_EQ(binary_sha256(binary_, ""), sha256_file(binary_));
  EXPECT_EQ(binary_sha256(binary_, folder_.path() / "none"), sha256_file(binary_));
  EXPECT_THAT([&] { binary_sha256(folder_.path() / "missing", kept_); },
              test::throws_error(ErrorCode::kNotFound, "cannot read"));
}

}  // namespace
}  // namespace weft::actors

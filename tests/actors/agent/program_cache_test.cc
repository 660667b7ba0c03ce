#include "actors/agent/program_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/sha256.h"

namespace weft::actors {
namespace {

namespace fs = std::filesystem;

class KeptProgramsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / "kept_programs";
    fs::remove_all(folder_);
    write("bin/gpt", "program");
    write("lib/libweft_tls.so", "plugin");
    write("lib/nvidia/libnccl.so.2", "library");
    write("lib/libweft.a", "archive");
    fs::permissions(folder_ / "bin/gpt", fs::perms::owner_exec, fs::perm_options::add);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    fs::remove(folder_ / name);  // linkers unlink too: hard links keep the old content
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  static std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  fs::path folder_;
};

TEST_F(KeptProgramsTest, StayAsTheyWereWhenTheyAreBuiltAnewOrRemoved) {
  const ProgramCache programs(folder_ / "kept", "");
  const fs::path binary = folder_ / "bin/gpt";
  const std::string sha256 = sha256_file(binary);
  EXPECT_FALSE(programs.find("gpt", sha256));
  const fs::path kept = programs.keep(binary, sha256);
  EXPECT_NE(kept, binary);
  write("bin/gpt", "another program");
  write("lib/libweft_tls.so", "another plugin");
  fs::remove_all(folder_ / "lib/nvidia");
  EXPECT_EQ(read(kept), "program");
  EXPECT_EQ(kept.filename(), "gpt");
  const fs::path libraries = kept.parent_path().parent_path() / "lib";
  EXPECT_EQ(read(libraries / "libweft_tls.so"), "plugin");
  EXPECT_EQ(read(libraries / "nvidia/libnccl.so.2"), "library");
  EXPECT_FALSE(fs::exists(libraries / "libweft.a"));
  // Another process of the run finds the copy, whatever the original path holds now.
  EXPECT_EQ(ProgramCache(folder_ / "kept", "").find("gpt", sha256), kept);
  EXPECT_EQ(ProgramCache(folder_ / "kept", "").keep(binary, sha256), kept);
}

TEST_F(KeptProgramsTest, TheLibrariesOfASystemAreNotTheProgramsOwn) {
  const ProgramCache programs(folder_ / "kept", "");
  fs::remove(folder_ / "lib/libweft_tls.so");
  fs::remove(folder_ / "lib/libweft.a");
  const fs::path binary = folder_ / "bin/gpt";
  const fs::path kept = programs.keep(binary, sha256_file(binary));
  EXPECT_EQ(read(kept), "program");
  EXPECT_FALSE(fs::exists(kept.parent_path().parent_path() / "lib"));
}

TEST_F(KeptProgramsTest, AnotherProgramOfTheNameHasItsOwnPlace) {
  const ProgramCache programs(folder_ / "kept", "");
  const fs::path binary = folder_ / "bin/gpt";
  const fs::path first = programs.keep(binary, sha256_file(binary));
  write("bin/gpt", "another program");
  fs::permissions(binary, fs::perms::owner_exec, fs::perm_options::add);
  const fs::path second = programs.keep(binary, sha256_file(binary));
  EXPECT_NE(first, second);
  EXPECT_EQ(read(first), "program");
  EXPECT_EQ(read(second), "another program");
  programs.remove();
  EXPECT_FALSE(fs::exists(folder_ / "kept"));
}

TEST_F(KeptProgramsTest, ABinaryReplacedBeforeItsCopyWasKeptIsNotFound) {
  const ProgramCache programs(folder_ / "kept", "");
  const fs::path binary = folder_ / "bin/gpt";
  const std::string sha256 = sha256_file(binary);
  write("bin/gpt", "another program");
  EXPECT_EQ(programs.keep(binary, sha256), binary);
  EXPECT_FALSE(programs.find("gpt", sha256));
}

TEST_F(KeptProgramsTest, WhereNothingCanBeWrittenTheOriginalServes) {
  const fs::path binary = folder_ / "bin/gpt";
  write("file", "");
  EXPECT_EQ(ProgramCache(folder_ / "file/kept", "").keep(binary, sha256_file(binary)), binary);
  EXPECT_EQ(ProgramCache("", "").keep(binary, sha256_file(binary)), binary);
}

}  // namespace
}  // namespace weft::actors

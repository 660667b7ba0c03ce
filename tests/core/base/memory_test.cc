#include "core/base/memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/scratch_folder.h"

namespace weft {
namespace {
namespace fs = std::filesystem;

class AvailableMemory : public ::testing::Test {
 protected:
  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  const test::ScratchFolder scratch_;
  const fs::path& root_ = scratch_.path();
};

TEST_F(AvailableMemory, OfThisMachineIsKnown) { EXPECT_GT(available_memory().value_or(0), 0u); }

TEST_F(AvailableMemory, IsUnknownWhereTheSystemDoesNotTell) {
  EXPECT_EQ(available_memory(root_), std::nullopt);
}

TEST_F(AvailableMemory, IsTheLeastThatTheMachineAndAnyControlGroupAboveAllow) {
  write("proc/meminfo",
        "MemTotal:       8000 kB\nHugePages_Total:       0\nMemAvailable:   4000 kB\nBuffers:  1 "
        "kB\n");
  EXPECT_EQ(available_memory(root_), 4000u << 10);
  write("proc/self/cgroup", "0::/jobs/mine\n");
  write("sys/fs/cgroup/jobs/mine/memory.max", "max\n");
  write("sys/fs/cgroup/jobs/mine/memory.current", "1\n");
  EXPECT_EQ(available_memory(root_), 4000u << 10);
  write("sys/fs/cgroup/jobs/memory.max", "1000000\n");
  write("sys/fs/cgroup/jobs/memory.current", "900000\n");
  write("sys/fs/cgroup/jobs/memory.stat", "anon 700000\ninactive_file 150000\n");
  EXPECT_EQ(available_memory(root_), 250000u) << "pages of files can be given back";
}

}  // namespace
}  // namespace weft

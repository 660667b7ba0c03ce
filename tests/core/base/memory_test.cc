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
  EXPECT_EQ(total_memory(root_), 0u);
}

TEST_F(AvailableMemory, IsTheLeastThatTheMachineAndAnyControlGroupAboveAllow) {
  write("proc/meminfo",
        "MemTotal:       8000 kB\nHugePages_Total:       0\nMemAvailable:   4000 kB\nBuffers:  1 "
        "kB\n");
  EXPECT_EQ(available_memory(root_), 4000u << 10);
  EXPECT_EQ(total_memory(root_), 8000u << 10);
  write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "0::/jobs/mine\n");
  write("sys/fs/cgroup/jobs/mine/memory.max", "max\n");
  write("sys/fs/cgroup/jobs/mine/memory.current", "1\n");
  EXPECT_EQ(available_memory(root_), 4000u << 10);
  write("sys/fs/cgroup/jobs/memory.max", "1000000\n");
  write("sys/fs/cgroup/jobs/memory.current", "900000\n");
  write("sys/fs/cgroup/jobs/memory.stat", "anon 700000\ninactive_file 150000\n");
  EXPECT_EQ(available_memory(root_), 250000u) << "pages of files can be given back";
  EXPECT_EQ(total_memory(root_), 1000000u);
}

TEST_F(AvailableMemory, KnowsTheFirstVersionOfControlGroupsToo) {
  write("proc/self/mountinfo",
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "4:cpu,memory:/jobs/mine\n0::/\n");
  write("sys/fs/cgroup/memory/jobs/mine/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/jobs/mine/memory.usage_in_bytes", "700000\n");
  write("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "1000000\n");
  write("sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "900000\n");
  write("sys/fs/cgroup/memory/jobs/memory.stat",
        "inactive_file 1\ntotal_cache 5\ntotal_inactive_file 50000\n");
  EXPECT_EQ(available_memory(root_), 150000u);
  EXPECT_EQ(total_memory(root_), 1000000u);
}

TEST_F(AvailableMemory, OfAContainerEndsAtTheGroupThatIsMountedThere) {
  write("proc/self/mountinfo",
        "35 31 0:32 /docker/a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  write("proc/self/cgroup", "4:memory:/docker/a/b\n");
  write("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "5000\n");
  write("sys/fs/cgroup/memory/b/memory.usage_in_bytes", "1000\n");
  write("sys/fs/cgroup/memory.limit_in_bytes", "10\n");
  write("sys/fs/cgroup/memory.usage_in_bytes", "1\n");
  EXPECT_EQ(available_memory(root_), 4000u);
}

}  // namespace
}  // namespace weft

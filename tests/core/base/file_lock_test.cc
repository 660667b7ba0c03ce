#include "core/base/file_lock.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace {

int failing_flock = 0;  // errno that flock() fails with; 0 if it works

}  // namespace

// Replaces the C library's function.
extern "C" int flock(int file, int operation) noexcept {
  if (failing_flock != 0) {
    errno = failing_flock;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, file, operation));
}

namespace weft {
namespace {

TEST(FileLock, AFileSystemWithoutLocksIsNamedWithARemedy) {
  const test::ScratchFolder folder;
  failing_flock = ENOLCK;
  EXPECT_THAT([&] { (void)FileLock::try_acquire(folder.path() / "lock"); },
              test::throws_error(ErrorCode::kUnavailable, "has no locks", "rpc.statd"));
  failing_flock = 0;
}

TEST(FileLock, OneProcessHoldsTheLockAtATime) {
  const test::ScratchFolder folder;
  const auto path = folder.path() / "lock";
  std::optional<FileLock> first = FileLock::try_acquire(path);
  ASSERT_TRUE(first);
  EXPECT_FALSE(FileLock::try_acquire(path));
  int asked = 0;
  EXPECT_FALSE(FileLock::acquire(path, [&] { return ++asked == 3; }));
  EXPECT_EQ(asked, 3);

  FileLock moved = std::move(*first);
  first.reset();
  EXPECT_FALSE(FileLock::try_acquire(path)) << "what was moved away holds nothing";
  std::thread waiting([&] {
    std::optional<FileLock> second = FileLock::acquire(path, [] { return false; });
    EXPECT_TRUE(second);
    EXPECT_FALSE(FileLock::try_acquire(path));
  });
  { const FileLock gone = std::move(moved); }
  waiting.join();
  EXPECT_TRUE(FileLock::try_acquire(path));
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(FileLock, AFileThatCannotBeCreatedIsAnError) {
  const test::ScratchFolder folder;
  EXPECT_THAT([&] { FileLock::try_acquire(folder.path() / "no" / "lock"); },
              test::throws_error(ErrorCode::kUnavailable, "No such file or directory"));
  std::filesystem::create_symlink(folder.path() / "elsewhere", folder.path() / "link");
  EXPECT_THAT([&] { FileLock::try_acquire(folder.path() / "link"); },
              test::throws_error(ErrorCode::kUnavailable, "symbolic links"))
      << "nobody is led elsewhere";
}

}  // namespace
}  // namespace weft

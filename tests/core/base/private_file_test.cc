#include "core/base/private_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using test::error_of;

constexpr uid_t kNobody = 65534;

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
  fs::permissions(path, fs::perms(0600));
}

void set_mode(const fs::path& path, unsigned mode) { fs::permissions(path, fs::perms(mode)); }

std::optional<std::string> read(const fs::path& path) {
  return read_private_file(path, "token file", "bring it back", "close it");
}

std::string refused(const fs::path& path) {
  const Error error = error_of([&] { (void)read(path); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_NE(error.message().find(path.string()), std::string::npos) << error.message();
  return error.message();
}

class OwnFile : public ::testing::Test {
 protected:
  OwnFile() {
    set_mode(folder, 0700);
    fs::create_directory(folder / "mine");
    set_mode(folder / "mine", 0700);
    fs::create_directory(folder / "open");
    set_mode(folder / "open", 0777);
    write(folder / "mine" / "token", "secret");
  }
  const test::ScratchFolder scratch;
  const fs::path folder = scratch.path();
};

TEST_F(OwnFile, ReadsAFileOfThisUserAndNothingWhereThereIsNone) {
  EXPECT_EQ(read(folder / "mine" / "token"), "secret");
  EXPECT_EQ(read(folder / "mine" / "none"), std::nullopt);
  EXPECT_EQ(read(folder / "none" / "token"), std::nullopt);
  set_mode(folder / "mine" / "token", 0640);
  EXPECT_NE(refused(folder / "mine" / "token").find("open to other users (mode 0640)"),
            std::string::npos);
}

TEST_F(OwnFile, FollowsLinksThatOnlyTheUserCanHaveMade) {
  fs::create_symlink(folder / "mine" / "token", folder / "mine" / "7077");
  EXPECT_EQ(read(folder / "mine" / "7077"), "secret");
  // Kubernetes mounts a secret this way.
  const fs::path mount = folder / "mine" / "mount";
  fs::create_directories(mount / "..2026");
  write(mount / "..2026" / "token", "theirs");
  fs::create_symlink("..2026", mount / "..data");
  fs::create_symlink("..data/token", mount / "token");
  EXPECT_EQ(read(mount / "token"), "theirs");
  // Path through a linked folder, and path with "..".
  fs::create_directory_symlink("mount/..2026", folder / "mine" / "latest");
  EXPECT_EQ(read(folder / "mine" / "latest" / "token"), "theirs");
  EXPECT_EQ(read(folder / "mine" / "mount" / ".." / "token"), "secret");
}

TEST_F(OwnFile, FollowsNoLinkInAFolderThatOthersCanWriteTo) {
  fs::create_symlink(folder / "mine" / "token", folder / "open" / "token");
  fs::create_directory_symlink(folder / "mine", folder / "open" / "state");
  for (const unsigned mode : {0777u, 01777u, 0770u, 0702u}) {
    set_mode(folder / "open", mode);
    EXPECT_NE(refused(folder / "open" / "token").find("the link 'token'"), std::string::npos);
    EXPECT_NE(refused(folder / "open" / "state" / "token").find("the link 'state'"),
              std::string::npos);
    EXPECT_EQ(error_of([&] {
                (void)open_trusted(folder / "open" / "token", O_WRONLY | O_CREAT | O_APPEND, 0644);
              }).code(),
              ErrorCode::kFailedPrecondition);
    EXPECT_EQ(error_of([&] { check_trusted_owner(folder / "open" / "state", "or not"); }).code(),
              ErrorCode::kFailedPrecondition);
  }
  set_mode(folder / "open", 0755);
  EXPECT_EQ(read(folder / "open" / "token"), "secret");
  set_mode(folder / "open", 0777);
  write(folder / "open" / "file", "of mine");
  EXPECT_EQ(read(folder / "open" / "file"), "of mine") << "a file is judged by its owner";
}

TEST_F(OwnFile, AFileOnAReadOnlyMountIsTrusted) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to mount";
  const pid_t child = ::fork();
  if (child == 0) {
    const fs::path mount = folder / "mine" / "mount";
    fs::create_directory(mount);
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", mount.c_str(), "tmpfs", 0, "mode=1777") != 0)
      ::_exit(77);
    write(mount / "data", "in a pod");
    fs::create_symlink("data", mount / "token");
    bool before = false;
    try {
      (void)read(mount / "token");
    } catch (const Error&) {
      before = true;
    }
    if (::mount(nullptr, mount.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, "mode=1777") != 0)
      ::_exit(77);
    ::_exit(before && read(mount / "token") == "in a pod" ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this machine lets nobody mount";
  EXPECT_EQ(status, 0);
}

TEST_F(OwnFile, AnEndlessLinkLeadsNowhere) {
  fs::create_symlink("loop", folder / "mine" / "loop");
  EXPECT_NE(refused(folder / "mine" / "loop").find("oo many"), std::string::npos);
}

TEST_F(OwnFile, APipeOfThisProcessIsRead) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "piped", 5), 5);
  ::close(ends[1]);
  EXPECT_EQ(read("/proc/self/fd/" + std::to_string(ends[0])), "piped");
  ::close(ends[0]);
}

TEST_F(OwnFile, ASecondNameInAFolderOfOthersIsNotWrittenTo) {
  ASSERT_EQ(::link((folder / "mine" / "token").c_str(), (folder / "open" / "a.log").c_str()), 0);
  const Error error = error_of(
      [&] { (void)open_trusted(folder / "open" / "a.log", O_WRONLY | O_CREAT | O_APPEND, 0644); });
  EXPECT_NE(error.message().find("second hard link"), std::string::npos) << error.message();
  const int file = open_trusted(folder / "mine" / "token", O_WRONLY | O_APPEND);
  EXPECT_GE(file, 0) << "nobody else can have made it";
  ::close(file);
}

TEST_F(OwnFile, AFileOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  for (const char* name : {"token", "pipe", "state"}) {
    SCOPED_TRACE(name);
    const fs::path path = folder / "open" / name;
    if (name == std::string("token")) write(path, "of nobody");
    if (name == std::string("pipe")) {
      ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    }
    if (name == std::string("state")) fs::create_directory(path);
    ASSERT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
    EXPECT_NE(refused(path).find("belongs to another user (uid 65534"), std::string::npos);
    // Opening the pipe for writing would block, as it has no reader.
    EXPECT_EQ(
        error_of([&] { (void)open_trusted(path, O_WRONLY | O_CREAT | O_APPEND, 0644); }).code(),
        ErrorCode::kFailedPrecondition);
    EXPECT_NE(
        error_of([&] { check_trusted_owner(path, "give another"); }).message().find("give another"),
        std::string::npos);
    EXPECT_EQ(error_of([&] { create_private_folder(path); }).code(),
              ErrorCode::kFailedPrecondition);
  }
  fs::create_symlink(folder / "open" / "token", folder / "mine" / "link");
  EXPECT_NE(refused(folder / "mine" / "link").find("belongs to another user"), std::string::npos);
}

TEST_F(OwnFile, FoldersAreMadeForThisUserAlone) {
  create_private_folder(folder / "mine" / "a" / "b");
  struct stat about {};
  ASSERT_EQ(::stat((folder / "mine" / "a" / "b").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0700u);
  create_private_folder(folder / "mine" / "a" / "b");
  write_private_file(folder / "mine" / "a" / "token", "new", "token", "choose another");
  EXPECT_EQ(read(folder / "mine" / "a" / "token"), "new");
  write_private_file(folder / "mine" / "a" / "token", "newer", "token", "choose another");
  EXPECT_EQ(read(folder / "mine" / "a" / "token"), "newer");
}

}  // namespace
}  // namespace weft

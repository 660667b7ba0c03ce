#include "actors/supervision/fork_launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <future>

#include "actors/supervision/proc_stat.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Shell command as a child process, with promises that its death and its reaping fulfil.
struct Started {
  std::promise<ExitReport> death;
  std::promise<ExitReport> reaped;
  pid_t pid = 0;

  Started(ForkLauncher& launcher, const std::string& script,
          const std::filesystem::path& log = "/dev/null") {
    pid = launcher.launch({"test child", {"/bin/sh", "-c", script}, {"WEFT_TEST_WORD=hello"}, log},
                          {[this](const ExitReport& e) { death.set_value(e); },
                           [this](const ExitReport& e) { reaped.set_value(e); }});
  }
};

template <typename T>
T get(std::promise<T>& promise) {
  auto future = promise.get_future();
  if (future.wait_for(test::kPatience) != std::future_status::ready)
    throw std::runtime_error("nothing within a minute");
  return future.get();
}

std::filesystem::path temporary(const std::string& name) {
  return std::filesystem::temp_directory_path() / fmt::format("weft_{}_{}", name, ::getpid());
}

TEST(ForkLauncher, ReportsTheExitStatusAndTheLastLinesOfTheLog) {
  const auto log = temporary("launcher_log");
  ForkLauncher launcher;
  Started child(launcher, "echo one; echo $WEFT_TEST_WORD >&2; exit 3", log);
  const ExitReport evidence = get(child.death);
  EXPECT_EQ(evidence.status, 3);
  EXPECT_EQ(evidence.signal, 0);
  EXPECT_EQ(evidence.pid, child.pid);
  EXPECT_THAT(evidence.tail_lines, ElementsAre("one", "hello"));
  EXPECT_THAT(evidence.cause(), HasSubstr("exit status 3"));
  EXPECT_THAT(evidence.log_note(),
              HasSubstr(log.string() + ", which ends with:\n  | one\n  | hello"));
  get(child.reaped);
  std::filesystem::remove(log);
}

TEST(ForkLauncher, AChildReadsItsSecretFromADescriptorAndNothingElseOfItsParent) {
  const auto log = temporary("launcher_secret");
  ForkLauncher launcher;
  const Secret secret = Secret::random();
  std::promise<ExitReport> reaped;
  ProcessSpec spec{
      "test child",
      {"/bin/sh", "-c", "od -An -v -tx1 <&3 | tr -d ' \\n'; echo; ls /proc/self/fd | tr '\\n' ' '"},
      {},
      log};
  spec.secret = secret;
  launcher.launch(spec, {{}, [&](const ExitReport& evidence) { reaped.set_value(evidence); }});
  // descriptor 4: the folder that ls reads
  EXPECT_THAT(get(reaped).tail_lines, ElementsAre(secret.hexadecimal(), HasSubstr("0 1 2 3 4")))
      << "and no more";
  std::filesystem::remove(log);
}

TEST(ForkLauncher, ReportsTheSignalOnce) {
  ForkLauncher launcher;
  Started child(launcher, "sleep 60");
  launcher.signal(child.pid, SIGKILL);
  EXPECT_EQ(get(child.death).signal, SIGKILL);
  EXPECT_EQ(get(child.reaped).signal, SIGKILL);
}

TEST(ForkLauncher, SuccessIsOrderly) {
  ForkLauncher launcher;
  Started child(launcher, "exit 0");
  EXPECT_TRUE(get(child.death).exited_cleanly());
  get(child.reaped);
}

TEST(ForkLauncher, StopTakesTheWholeGroupAndKillsWhatIgnoresIt) {
  const auto file = temporary("launcher_group");
  ForkLauncher launcher;
  Started child(launcher, "trap '' TERM; (trap '' TERM; sleep 60) & echo $! > " + file.string() +
                              "; wait; wait");
  pid_t grandchild = 0;
  for (int i = 0; i < 1000 && grandchild == 0; ++i) {
    std::ifstream(file) >> grandchild;
    ::poll(nullptr, 0, 5);
  }
  ASSERT_NE(grandchild, 0);
  launcher.stop(child.pid, std::chrono::milliseconds(50));
  EXPECT_EQ(get(child.reaped).signal, SIGKILL);
  for (int i = 0; i < 1000 && ::kill(grandchild, 0) == 0; ++i) {
    const auto stat = read_proc_stat(grandchild);
    if (stat && stat->exiting) break;
    ::poll(nullptr, 0, 5);
  }
  const auto stat = read_proc_stat(grandchild);
  EXPECT_TRUE(!stat || stat->exiting);
  std::filesystem::remove(file);
}

TEST(ForkLauncher, DestructorLeavesNothingBehind) {
  pid_t pid = 0;
  {
    ForkLauncher launcher;
    pid = launcher.launch({"sleeper", {"/bin/sleep", "60"}, {}, "/dev/null"}, {});
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST(ForkLauncher, ExecutableThatDoesNotExistIsAnError) {
  ForkLauncher launcher;
  EXPECT_THAT(
      [&] {
        launcher.launch({"agent worker0", {"/nowhere/weft"}, {}, ""}, {});
      },
      test::throws_error(
          ErrorCode::kFailedPrecondition,
          testing::Eq("cannot run /nowhere/weft as agent worker0: No such file or directory")));
}

TEST(ForkLauncher, NothingIsLoggedWhereAnotherUsersLinkLeads) {
  const test::ScratchFolder scratch;
  const std::filesystem::path logs = scratch.path() / "logs",
                              precious = scratch.path() / "precious";
  std::filesystem::create_directory(logs);
  std::filesystem::permissions(logs, std::filesystem::perms(0777));
  std::ofstream(precious) << "as it was\n";
  std::filesystem::create_symlink(precious, logs / "a.log");
  ForkLauncher launcher;
  const Error error = test::error_of([&] {
    launcher.launch({"a", {"/bin/sh", "-c", "echo more"}, {}, logs / "a.log"}, {});
  });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(error.message(), HasSubstr("a folder that other users can write to"));
  std::string text;
  std::getline(std::ifstream(precious), text, '\0');
  EXPECT_EQ(text, "as it was\n");
}

TEST(ForkLauncher, ChildrenDieWithTheirParent) {
  const auto file = temporary("launcher_orphan");
  const pid_t middle = ::fork();
  if (middle == 0) {
    ForkLauncher launcher;
    const pid_t pid = launcher.launch({"orphan", {"/bin/sleep", "60"}, {}, "/dev/null"}, {});
    std::ofstream(file) << pid << std::endl;
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(middle, nullptr, 0);
  pid_t orphan = 0;
  std::ifstream(file) >> orphan;
  ASSERT_NE(orphan, 0);
  bool gone = false;
  for (int i = 0; i < 1000 && !gone; ++i, ::poll(nullptr, 0, 5)) {
    const auto stat = read_proc_stat(orphan);
    gone = !stat || stat->exiting;
  }
  EXPECT_TRUE(gone);
  std::filesystem::remove(file);
}

TEST(ProcStat, FindsItsFieldsBehindAnyName) {
  std::string line = "12 (a) b (c)) S";
  // field numbers of proc(5)
  for (int field = 4; field <= 52; ++field)
    line += fmt::format(" {}", field == 9 ? 0x400004 : field);
  const auto stat = parse_proc_stat(line + "\n");
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent, 4);
  EXPECT_TRUE(stat->exiting);
  EXPECT_EQ(stat->rss_bytes, 24u * static_cast<unsigned>(::sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(stat->wait_status, 52);
}

TEST(ProcStat, ThisProcessLives) {
  const auto stat = read_proc_stat(::getpid());
  ASSERT_TRUE(stat.has_value());
  EXPECT_FALSE(stat->exiting);
  EXPECT_GT(stat->rss_bytes, 1u << 20);
  EXPECT_LT(stat->rss_bytes, 1ull << 40);
}

}  // namespace
}  // namespace weft::actors

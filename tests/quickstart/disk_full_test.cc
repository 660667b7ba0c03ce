// Tests runs whose disk fills up: real processes on a tmpfs of the test.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "apps/run_files/checkpoint.h"
#include "apps/run_files/metrics.h"
#include "tests/quickstart/run_files.h"

namespace weft::test {
namespace {
namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::Not;

class DiskFull : public ::testing::Test {
 protected:
  DiskFull() : processes_("disk_full"), disk_(processes_.directory() / "disk") {
    write_run_files(processes_);
    fs::create_directory(disk_);
  }
  ~DiskFull() override {
    if (mounted_) ::umount2(disk_.c_str(), MNT_DETACH);
  }
  /// Mounts a tmpfs that only this process and its children see. Returns an error, or "" on
  /// success.
  std::string mount_disk(std::int64_t kib) {
    if (::geteuid() != 0) return "only root may mount a disk of 3 MiB to fill";
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return fmt::format("this machine gives no mount namespace: {}", std::strerror(errno));
    if (::mount("tmpfs", disk_.c_str(), "tmpfs", 0, fmt::format("size={}k", kib).c_str()) != 0)
      return fmt::format("cannot mount a tmpfs: {}", std::strerror(errno));
    mounted_ = true;
    return "";
  }
  /// Writes until the disk is full.
  void fill_disk() const {
    const int file = ::open((disk_ / "filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const std::vector<char> bytes(4096);
    while (::write(file, bytes.data(), bytes.size()) > 0) {
    }
    ::close(file);
  }
  static std::vector<std::string> run_on_disk() {
    std::vector<std::string> arguments = {"run", "cluster.yaml", "--out", "disk/out"};
    for (const char* setting : {"model={layers: 4, width: 32, heads: 4, sequence: 16}",
                                "data={text: text.txt, tokenizer: bytes, cache: cache}",
                                "training.steps=12", "training.warmup_steps=2",
                                "training.validate_every=6", "checkpoint={every: 2, keep: 10}"}) {
      arguments.push_back("--set");
      arguments.push_back(setting);
    }
    return arguments;
  }

  RealProcesses processes_;
  const fs::path disk_;
  bool mounted_ = false;
};

TEST_F(DiskFull, AtTheVeryStartAHeadSaysWhatIsWrongWhereAndWhatToDo) {
  if (const std::string why = mount_disk(64); !why.empty()) GTEST_SKIP() << why;
  fill_disk();
  auto& head = processes_.run("weft", {"head", "--listen", "127.0.0.1:0", "--state", "disk/state"});
  EXPECT_EQ(head.wait(), 1) << head.text();
  EXPECT_THAT(head.text(),
              HasSubstr("cannot write the token " + (disk_ / "state/token").string() +
                        ": No space left on device; choose another folder with --state"));
}

TEST_F(DiskFull, AtTheVeryStartAHeadWhoseTokenIsThereRunsAllTheSame) {
  if (const std::string why = mount_disk(256); !why.empty()) GTEST_SKIP() << why;
  const std::vector<std::string> start = {"head", "--listen", "127.0.0.1:0", "--state",
                                          "disk/state"};
  auto& first = processes_.start("weft", start);
  auto& stop =
      processes_.run("weft", {"stop", "--head", first.word_after("Weft's head listens on ")});
  EXPECT_EQ(stop.wait(), 0) << stop.text();
  EXPECT_EQ(first.wait(), 0);
  for (const char* file : {"head.db", "head.db-wal"}) fs::remove(disk_ / "state" / file);
  fill_disk();
  auto& head = processes_.start("weft", start);
  const std::string address = head.word_after("Weft's head listens on ");
  head.word_after("; the cluster continues and keeps its state in memory");
  processes_.start("weft", {"join", address, "--name", "a"}).word_after("has joined cluster");
  EXPECT_EQ(processes_.run("weft", {"status", "--head", address}).wait(), 0);
  fs::remove(disk_ / "filler");
  processes_.start("weft", {"join", address, "--name", "b"}).word_after("has joined cluster");
  head.word_after("head.db can be written again");
  EXPECT_EQ(processes_.run("weft", {"stop", "--head", address}).wait(), 0);
  EXPECT_EQ(head.wait(), 0) << head.text();
}

TEST_F(DiskFull, AtTheVeryStartARunTrainsToItsLastStepAndSaysThatNothingCouldBeKept) {
  if (const std::string why = mount_disk(64); !why.empty()) GTEST_SKIP() << why;
  fill_disk();
  // The schedule file is also kept in memory.
  processes_.write("mine.csv", processes_
                                   .run("weft", {"schedule", "show", "1f1b", "--stages", "2",
                                                 "--microbatches", "8", "--csv"})
                                   .text());
  std::vector<std::string> arguments = run_on_disk();
  arguments.insert(arguments.end(), {"--set", "pipeline.schedule=mine.csv"});
  auto& run = processes_.run("weft", arguments);
  EXPECT_EQ(run.wait(), 1) << run.text();
  const std::string text = run.text();
  EXPECT_THAT(text, HasSubstr("step 12/12"));
  const std::string last = text.substr(text.rfind("weft: "));
  EXPECT_THAT(
      last,
      HasSubstr(
          "the last checkpoint, of step 12, could not be written (there is none): cannot write " +
          (disk_ / "out").string()));
  EXPECT_THAT(last, HasSubstr("No space left on device"));
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(DiskFull, TheRunGoesOnAndItsLastWordsReachTheTerminal) {
  if (const std::string why = mount_disk(2200); !why.empty()) GTEST_SKIP() << why;
  auto& run = processes_.run("weft", run_on_disk());
  EXPECT_EQ(run.wait(), 1) << run.text();
  EXPECT_THAT(run.text(), ::testing::ContainsRegex(
                              "No space left on device; (training goes on, and the next one is "
                              "tried after step|the next one is tried now)"));
  EXPECT_THAT(run.text(), HasSubstr("step 12/12"));
  const std::string text = run.text();
  const std::string last = text.substr(text.rfind("weft: run 'quickstart' failed: "));
  EXPECT_THAT(
      last,
      HasSubstr("the last checkpoint, of step 12, could not be written (the newest is of step "));
  EXPECT_THAT(last, HasSubstr("No space left on device"));
  EXPECT_THAT(text, Not(HasSubstr("exit status 1")));
  EXPECT_TRUE(processes_.none_left());
  const apps::Checkpoint kept = apps::read_checkpoint(apps::find_checkpoint(disk_ / "out"));
  EXPECT_GE(kept.step, 2);
  for (const auto& entry : fs::directory_iterator(disk_ / "out" / "checkpoints"))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".unfinished")) << entry.path();
}

}  // namespace
}  // namespace weft::test

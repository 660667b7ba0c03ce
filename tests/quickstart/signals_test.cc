// Tests runs whose processes receive signals: all at once, as Slurm, systemd and containers send
// them, or one process alone.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "apps/run_files/checkpoint.h"
#include "apps/run_files/metrics.h"
#include "tests/quickstart/run_files.h"

namespace weft::test {
namespace {
namespace fs = std::filesystem;

using ::testing::HasSubstr;

class SignalledRun : public ::testing::Test {
 protected:
  SignalledRun() : processes_("signals") { write_run_files(processes_); }

  RealProcesses::Process& start(std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"run", "cluster.yaml", "--out", "out"};
    for (const char* setting : {"model={layers: 4, width: 32, heads: 4, sequence: 16}",
                                "data={text: text.txt, tokenizer: bytes, cache: cache}",
                                "training.steps=1000000", "checkpoint.every=1000000"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), more.begin(), more.end());
    return processes_.start("weft", words);
  }
  fs::path out() const { return processes_.directory() / "out"; }
  std::size_t steps() const {
    const std::string text = read_file(out() / "metrics.jsonl");
    return std::count(text.begin(), text.end(), '\n');
  }
  bool has_steps(std::size_t count) const {
    return eventually([&] { return steps() >= count; });
  }
  std::vector<std::int64_t> checkpoints() const {
    std::vector<std::int64_t> found;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(out() / "checkpoints", none))
      if (const std::string name = entry.path().filename(); name.starts_with("step-"))
        found.push_back(std::stoll(name.substr(5)));
    return found;
  }
  pid_t process_with(const std::string& word) const {
    for (const pid_t pid : processes_.left())
      if (read_file(fmt::format("/proc/{}/cmdline", pid)).find(word) != std::string::npos)
        return pid;
    ADD_FAILURE() << "no process with " << word;
    return -1;
  }
  void signal_all(int signal) {
    std::vector<pid_t> all = processes_.left();
    std::ranges::shuffle(all, random_);
    for (const pid_t pid : all) ::kill(pid, signal);
  }
  void expect_last_step_saved(RealProcesses::Process& run) {
    EXPECT_EQ(run.wait(), 130) << run.text();
    EXPECT_TRUE(processes_.none_left());
    const auto lines = apps::read_metrics(out() / "metrics.jsonl");
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(apps::read_checkpoint(apps::find_checkpoint(out())).step, lines.back().step);
  }

  RealProcesses processes_;
  std::mt19937 random_{std::random_device{}()};
};

// All processes handle SIGTERM, SIGINT and SIGHUP by the same code. So each test takes one of them
// for each process or moment.
TEST_F(SignalledRun, ASignalToAllProcessesAtOnceLeavesACheckpointOfTheLastStep) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const std::size_t after = 1 + random_() % 60;
    SCOPED_TRACE(fmt::format("SIG{} after {} steps", ::sigabbrev_np(signal), after));
    fs::remove_all(out());
    auto& run = start();
    ASSERT_TRUE(has_steps(after)) << run.text();
    signal_all(signal);
    expect_last_step_saved(run);
  }
}

TEST_F(SignalledRun, ASignalToTheDriverAloneLeavesACheckpointOfTheLastStep) {
  auto& run = start();
  ASSERT_TRUE(has_steps(3)) << run.text();
  ::kill(process_with("--weft-role=driver"), SIGHUP);
  expect_last_step_saved(run);
}

TEST_F(SignalledRun, ASignalToWeftRunAloneLeavesACheckpointOfTheLastStep) {
  auto& run = start();
  ASSERT_TRUE(has_steps(3)) << run.text();
  ::kill(run.pid, SIGTERM);
  expect_last_step_saved(run);
}

TEST_F(SignalledRun, SigUsr1SavesAndTheRunGoesOn) {
  auto& run = start();
  ASSERT_TRUE(has_steps(3)) << run.text();
  ::kill(run.pid, SIGUSR1);
  ASSERT_TRUE(eventually([&] { return checkpoints().size() >= 1; })) << run.text();
  // `sbatch --signal=USR1@120` sends the signal to all processes.
  signal_all(SIGUSR1);
  ASSERT_TRUE(eventually([&] { return checkpoints().size() >= 2; })) << run.text();
  const std::size_t before = steps();
  ASSERT_TRUE(has_steps(before + 2)) << run.text();
  EXPECT_EQ(run.text().find("restart"), std::string::npos) << run.text();
  ::kill(run.pid, SIGINT);
  expect_last_step_saved(run);
}

/// Head, hosts and `weft run`, each started by hand.
class ByHandSignalled : public SignalledRun {
 protected:
  ByHandSignalled() {
    head_ = &start_head("127.0.0.1:0");
    address_ = head_->word_after("Weft's head listens on ");
    for (const char* name : {"worker0", "worker1"})
      hosts_.push_back(&processes_.start(
          "weft", {"join", address_, "--name", name, "--devices", "2", "--grace", "20"}));
    for (const auto* host : hosts_) host->word_after("has joined cluster");
  }
  RealProcesses::Process& start_head(const std::string& listen) {
    return processes_.start("weft", {"head", "--listen", listen, "--state", "state"});
  }

  RealProcesses::Process* head_ = nullptr;
  std::string address_;
  std::vector<RealProcesses::Process*> hosts_;
};

TEST_F(ByHandSignalled, ToAllProcessesAtOnceLeavesACheckpointOfTheLastStep) {
  auto& run = start({"--head", address_});
  ASSERT_TRUE(has_steps(3)) << run.text();
  signal_all(SIGTERM);
  expect_last_step_saved(run);
  EXPECT_EQ(head_->wait(), 0) << head_->text();
  for (auto* host : hosts_) EXPECT_EQ(host->wait(), 0) << host->text();
}

TEST_F(ByHandSignalled, AHostThatLeavesKeepsItsDevicesUntilTheRunHasSaved) {
  auto& run = start({"--head", address_});
  ASSERT_TRUE(has_steps(3)) << run.text();
  ::kill(hosts_[0]->pid, SIGTERM);
  EXPECT_EQ(hosts_[0]->wait(), 0) << hosts_[0]->text();
  EXPECT_THAT(hosts_[0]->text(), HasSubstr("host worker0 leaves the cluster: stopped by SIGTERM"));
  // The run has saved its state and waits for its host.
  run.word_after("waiting for devices");
  ::kill(run.pid, SIGINT);
  EXPECT_EQ(run.wait(), 130) << run.text();
  EXPECT_EQ(processes_.run("weft", {"stop", "--head", address_}).wait(), 0);
  expect_last_step_saved(run);
}

TEST_F(ByHandSignalled, AHeadThatIsStoppedIsReplacedUnderARunningTraining) {
  auto& run = start({"--head", address_});
  ASSERT_TRUE(has_steps(3)) << run.text();
  ::kill(head_->pid, SIGTERM);
  EXPECT_EQ(head_->wait(), 0) << head_->text();
  EXPECT_THAT(head_->text(), HasSubstr("host worker0, host worker1, run quickstart wait up to 60 s "
                                       "for a new head"));
  EXPECT_THAT(head_->text(), HasSubstr("weft stop --head " + address_));
  auto& next = start_head(address_);
  next.word_after("host worker0 reconnected");
  const std::size_t before = steps();
  ASSERT_TRUE(has_steps(before + 2)) << run.text();
  // `weft stop` ends all processes after the run's checkpoint.
  EXPECT_EQ(processes_.run("weft", {"stop", "--head", address_}).wait(), 0);
  expect_last_step_saved(run);
  for (auto* host : hosts_) EXPECT_EQ(host->wait(), 0) << host->text();
  EXPECT_EQ(next.wait(), 0) << next.text();
}

}  // namespace
}  // namespace weft::test

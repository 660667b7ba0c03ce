// Tests the quickstart: the shipped run file on real processes, with a small model.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/run_files/checkpoint.h"
#include "apps/run_files/metrics.h"
#include "tests/quickstart/run_files.h"

namespace weft::test {
namespace {
namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Quickstart : public ::testing::Test {
 protected:
  Quickstart() : processes_("quickstart") { write_run_files(processes_); }

  /// Returns the arguments of a small run with output folder `out`.
  static std::vector<std::string> run_into(const std::string& out,
                                           std::vector<std::string> settings = {}) {
    std::vector<std::string> arguments = {"run", "cluster.yaml", "--out", out};
    std::vector<std::string> all = {"model={layers: 4, width: 32, heads: 4, sequence: 16}",
                                    "data={text: text.txt, tokenizer: bytes, cache: cache}",
                                    "training.steps=12",
                                    "training.warmup_steps=2",
                                    "training.validate_every=6",
                                    "checkpoint.every=5"};
    all.insert(all.end(), settings.begin(), settings.end());
    for (const std::string& setting : all) {
      arguments.push_back("--set");
      arguments.push_back(setting);
    }
    return arguments;
  }
  fs::path path(const std::string& name) const { return processes_.directory() / name; }
  std::vector<double> losses(const std::string& out) const {
    std::vector<double> result;
    for (const apps::StepMetrics& m : apps::read_metrics(path(out) / "metrics.jsonl"))
      result.push_back(m.loss);
    return result;
  }
  /// Returns a device process of the run, or 0 if there is none.
  pid_t a_device() const {
    pid_t device = 0;
    for (const pid_t pid : processes_.left()) {
      const std::string command = read_file(fmt::format("/proc/{}/cmdline", pid));
      if (command.find("--weft-role=device") != std::string::npos) device = pid;
    }
    return device;
  }
  /// Waits until the run has written `steps` lines of metrics. Returns false after a timeout.
  bool has_steps(const std::string& out, std::size_t steps) const {
    return eventually([&] {
      const std::string text = read_file(path(out) / "metrics.jsonl");
      return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) >= steps;
    });
  }

  RealProcesses processes_;
};

TEST_F(Quickstart, WritesAndReportsAllPromisedFiles) {
  auto& run = processes_.run("weft", run_into("out"));
  ASSERT_EQ(run.wait(), 0) << run.text();
  EXPECT_THAT(run.text(), AllOf(HasSubstr("worker0 (2 devices)"), HasSubstr("step 12/12"),
                                HasSubstr("validation loss"), HasSubstr("unigram model"),
                                HasSubstr("resharded"), HasSubstr("during computation"),
                                HasSubstr("the model writes"), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(losses("out").size(), 12u);
  for (const apps::StepMetrics& m : apps::read_metrics(path("out") / "metrics.jsonl")) {
    EXPECT_GT(m.resharded_bytes, 0u);
    EXPECT_LE(m.exposed_transfer_seconds, m.seconds);
  }
  EXPECT_EQ(nlohmann::json::parse(read_file(path("out") / "summary.json"))["outcome"], "done");
  EXPECT_THAT(read_file(path("out") / "trace.json"),
              AllOf(HasSubstr("front[0,1] on worker0"), HasSubstr("back[1,0] on worker1"),
                    HasSubstr("reshard 7")));
  EXPECT_THAT(read_file(path("out") / "timeline.svg"), HasSubstr("on worker1"));
  EXPECT_THAT(read_file(path("out") / "loss.svg"), HasSubstr("unigram model"));
  EXPECT_EQ(apps::read_checkpoint(apps::find_checkpoint(path("out"))).step, 12);
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Quickstart, ARunWhoseFileChangesAfterItsCheckIsRefused) {
  processes_.write("app", fmt::format("#!/bin/sh\n"
                                      "case $1 in *driver) set -- \"$@\" --set "
                                      "pipeline.schedule=gpipe;; esac\n"
                                      "exec {} \"$@\"\n",
                                      processes_.program("gpt").string()));
  fs::permissions(path("app"), fs::perms::owner_all);
  auto& run = processes_.run("weft", run_into("out", {"app=./app"}));
  EXPECT_EQ(run.wait(), 1) << run.text();
  EXPECT_THAT(run.text(), HasSubstr("a file that it names changed while the run started"));
}

TEST_F(Quickstart, CtrlCWritesACheckpointFromWhichItGoesOnBitForBit) {
  ASSERT_EQ(processes_.run("weft", run_into("whole", {"training.steps=40"})).wait(), 0);
  auto& run =
      processes_.start("weft", run_into("part", {"training.steps=40", "checkpoint.every=1000"}));
  ASSERT_TRUE(has_steps("part", 3)) << run.text();
  ::kill(run.pid, SIGINT);
  EXPECT_EQ(run.wait(), 130) << run.text();
  EXPECT_TRUE(processes_.none_left());
  const std::size_t done = losses("part").size();
  ASSERT_LT(done, 40u) << "it was too quick to be interrupted";
  EXPECT_EQ(apps::read_checkpoint(apps::find_checkpoint(path("part"))).step,
            static_cast<std::int64_t>(done));
  auto& resumed =
      processes_.run("weft", run_into("part", {"training.steps=40", "checkpoint.resume=part"}));
  ASSERT_EQ(resumed.wait(), 0) << resumed.text();
  EXPECT_THAT(resumed.text(), HasSubstr(fmt::format("after step {}", done)));
  EXPECT_EQ(losses("part"), losses("whole"));
}

/// Run that is writing a checkpoint of about 40 MB. The parameter is checkpoint.background.
class DuringACheckpoint : public Quickstart, public ::testing::WithParamInterface<bool> {
 protected:
  RealProcesses::Process& start() {
    auto& run = processes_.start(
        "weft", run_into("out", {"training.steps=1000",
                                 "model={layers: 4, width: 256, heads: 4, sequence: 16}",
                                 fmt::format("checkpoint={{every: 2, background: {}}}", GetParam()),
                                 "recovery.restarts=0"}));
    EXPECT_TRUE(eventually([&] {
      return fs::exists(path("out/checkpoints/.unfinished-step-00000004"));
    })) << run.text();
    return run;
  }
  RealProcesses::Process& start_and_interrupt() {
    auto& run = start();
    ::kill(run.pid, SIGINT);
    EXPECT_TRUE(eventually(
        [&] { return run.text().find("press Ctrl-C again to stop now") != std::string::npos; }));
    return run;
  }
  std::vector<std::string> unfinished(const std::string& out = "out") const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path(out) / "checkpoints"))
      if (entry.path().filename().string().starts_with(".unfinished"))
        names.push_back(entry.path().filename());
    return names;
  }
  std::int64_t newest() const {
    return apps::read_checkpoint(apps::find_checkpoint(path("out"))).step;
  }
};

TEST_P(DuringACheckpoint, CtrlCIsAnsweredAtOnceAndTheLastOneIsWhole) {
  auto& run = start_and_interrupt();
  EXPECT_EQ(run.wait(), 130) << run.text();
  EXPECT_TRUE(processes_.none_left());
  EXPECT_GE(newest(), 4);
  EXPECT_EQ(newest(), static_cast<std::int64_t>(losses("out").size()));
  EXPECT_THAT(unfinished(), ::testing::IsEmpty());
}

TEST_P(DuringACheckpoint, CtrlCTwiceEndsTheRunAndTheHalfOneNeverCounts) {
  auto& run = start_and_interrupt();
  // A second signal within one second counts as an echo of the first.
  EXPECT_TRUE(eventually([&] {
    ::kill(run.pid, SIGINT);
    return run.wait(std::chrono::milliseconds(20)) >= 0;
  }));
  EXPECT_EQ(run.wait(), 130) << run.text();
  EXPECT_TRUE(processes_.none_left());
  const std::int64_t step = newest();
  EXPECT_GE(step, 2);
  auto& resumed = processes_.run(
      "weft", run_into("out", {fmt::format("training.steps={}", step + 1), "checkpoint.resume=out",
                               "model={layers: 4, width: 256, heads: 4, sequence: 16}"}));
  EXPECT_EQ(resumed.wait(), 0) << resumed.text();
  EXPECT_EQ(newest(), step + 1);
  EXPECT_THAT(unfinished(), ::testing::IsEmpty());
}

TEST_P(DuringACheckpoint, APartialCheckpointOfARunThatMovedAsideIsRemoved) {
  auto& run = start();
  ::kill(-run.pid, SIGKILL);
  run.wait();
  ASSERT_TRUE(eventually([&] { return processes_.none_left(); }));
  // Makes sure that there is an unfinished checkpoint, even if the run finished its own.
  fs::create_directories(path("out/checkpoints/.unfinished-step-00000099"));
  EXPECT_EQ(processes_.run("weft", run_into("out", {"training.steps=1"})).wait(), 0);
  EXPECT_THAT(unfinished("out.1"), ::testing::IsEmpty());
  EXPECT_GE(apps::read_checkpoint(apps::find_checkpoint(path("out.1"))).step, 2)
      << "whole ones stay";
}

TEST_P(DuringACheckpoint, ADeathIsReportedAndThePartialCheckpointIsRemoved) {
  auto& run = start();
  const pid_t victim = a_device();
  ASSERT_NE(victim, 0);
  ::kill(victim, SIGKILL);
  EXPECT_EQ(run.wait(), 1) << run.text();
  EXPECT_THAT(run.text(), AllOf(HasSubstr("SIGKILL"), HasSubstr(fmt::format("pid {}", victim))));
  EXPECT_TRUE(processes_.none_left());
  EXPECT_GE(newest(), 2);
  EXPECT_THAT(unfinished(), ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Ways, DuringACheckpoint, ::testing::Bool(), [](const auto& test) {
  return test.param ? "while_training_goes_on" : "while_it_pauses";
});

TEST_F(Quickstart, CtrlCAnswersAtOnceWhileScheduleAutoIsSearched) {
  auto& run =
      processes_.start("weft", run_into("out", {"training.steps=1000", "pipeline.schedule=auto"}));
  ASSERT_TRUE(has_steps("out", 3)) << run.text();  // the search starts after the fourth step
  ::kill(run.pid, SIGINT);
  EXPECT_TRUE(eventually(
      [&] { return run.text().find("press Ctrl-C again to stop now") != std::string::npos; }));
  EXPECT_EQ(run.wait(), 130) << run.text();
  EXPECT_TRUE(processes_.none_left());
  EXPECT_EQ(apps::read_checkpoint(apps::find_checkpoint(path("out"))).step,
            static_cast<std::int64_t>(losses("out").size()));
}

TEST_F(Quickstart, CtrlCWhileTheRunIsStillCheckedEndsItAtOnce) {
  // Planning 64 layers takes long enough to interrupt the check.
  auto& run = processes_.start(
      "weft",
      run_into("out", {"pipeline.schedule=auto", "pipeline.microbatches=16", "training.batch=64",
                       "model={layers: 64, width: 64, heads: 4, sequence: 16}",
                       "pipeline.stages=[{mesh: front, layers: 32}, {mesh: back, layers: 32}]"}));
  const auto checking = [&] {
    const auto left = processes_.left();
    return std::ranges::any_of(left, [](pid_t pid) {
      return read_file(fmt::format("/proc/{}/cmdline", pid)).find("--weft-role=check") !=
             std::string::npos;
    });
  };
  ASSERT_TRUE(eventually(checking));
  ::kill(run.pid, SIGINT);
  EXPECT_EQ(run.wait(), 130) << run.text();
  EXPECT_THAT(run.text(), HasSubstr("weft: interrupted, 'check of gpt' ends"));
  EXPECT_TRUE(processes_.none_left());
  EXPECT_FALSE(fs::exists(path("out"))) << "nothing had begun";
}

TEST_F(Quickstart, CheckpointsAndLossesAreTheSameWhetherTrainingPausesForThemOrNot) {
  const auto run = [&](const std::string& out, const std::string& background) {
    auto& process = processes_.run(
        "weft", run_into(out, {"training.steps=20",
                               "checkpoint={every: 2, keep: 10, buffer: 20KiB, background: " +
                                   background + "}"}));
    EXPECT_EQ(process.wait(), 0) << process.text();
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(path(out) / "checkpoints"))
      if (entry.is_regular_file())
        files[fs::relative(entry.path(), path(out))] = read_file(entry.path());
    return files;
  };
  const auto beside = run("beside", "true"), pausing = run("pausing", "false");
  EXPECT_EQ(beside.size(), 10u * 3);
  EXPECT_TRUE(beside == pausing);
  EXPECT_EQ(losses("beside"), losses("pausing"));
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Quickstart, WhereMemoryAllowsNoCopyTrainingPausesForCheckpointsAndALineSaysWhy) {
  auto& check =
      processes_.run("weft", {"check", "cluster.yaml", "--json", "--set",
                              "checkpoint.background=false", "--set", "recovery.copy_every=0",
                              "--set", "model={layers: 4, width: 32, heads: 4, sequence: 16}",
                              "--set", "data={text: text.txt, tokenizer: bytes, cache: cache}"});
  ASSERT_EQ(check.wait(), 0) << check.text();
  const auto most =
      nlohmann::json::parse(check.text()).at("device_bytes_at_most").get<std::uint64_t>();
  auto& run = processes_.run("weft", run_into("out", {fmt::format("pipeline.memory={}B", most),
                                                      "sample.tokens=1", "recovery.copy_every=0"}));
  EXPECT_EQ(run.wait(), 0) << run.text();
  EXPECT_THAT(
      run.text(),
      ContainsRegex("saving +training pauses while a checkpoint is written: a copy of parameters"));
  EXPECT_EQ(apps::read_checkpoint(apps::find_checkpoint(path("out"))).step, 12);
}

TEST_F(Quickstart, AKilledDeviceEndsARunWithoutRecoveryWhichCanBeResumed) {
  auto& run = processes_.start(
      "weft",
      run_into("out", {"training.steps=100000", "checkpoint.every=3", "recovery.restarts=0"}));
  ASSERT_TRUE(has_steps("out", 8)) << run.text();
  const pid_t victim = a_device();
  ASSERT_NE(victim, 0);
  ::kill(victim, SIGKILL);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.text(), AllOf(HasSubstr("SIGKILL"), HasSubstr(fmt::format("pid {}", victim))));
  EXPECT_TRUE(processes_.none_left());
  EXPECT_THAT(read_file(path("out") / "summary.json"), HasSubstr("failed: "));
  const std::int64_t step = apps::read_checkpoint(apps::find_checkpoint(path("out"))).step;
  EXPECT_GE(step, 3);
  auto& resumed = processes_.run(
      "weft",
      run_into("out", {fmt::format("training.steps={}", step + 5), "checkpoint.resume=out"}));
  EXPECT_EQ(resumed.wait(), 0) << resumed.text();
  EXPECT_EQ(losses("out").size(), static_cast<std::size_t>(step + 5));
}

/// Returns the TCP ports on which a process listens.
std::vector<std::uint16_t> listening_ports(pid_t pid) {
  std::vector<std::string> sockets;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), failed))
    sockets.push_back(fs::read_symlink(entry.path(), failed).string());
  std::vector<std::uint16_t> ports;
  std::istringstream table(read_file("/proc/net/tcp"));
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, skip, inode;
    words >> number >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) words >> skip;
    words >> inode;
    if (state == "0A" &&
        std::find(sockets.begin(), sockets.end(), "socket:[" + inode + "]") != sockets.end())
      ports.push_back(
          static_cast<std::uint16_t>(std::stoul(local.substr(local.find(':') + 1), nullptr, 16)));
  }
  return ports;
}

/// Sends 13 bytes that UCX 1.13 reads as the header of a message of 2 GiB.
void send_what_is_not_ucx(std::uint16_t port) {
  std::vector<std::byte> bytes(13);
  const std::uint64_t magic = 0xCAFEBABE12345678;
  const std::uint32_t length = 0x7fffffff;
  std::memcpy(bytes.data(), &magic, 8);
  std::memcpy(bytes.data() + 9, &length, 4);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
    (void)::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(socket, SHUT_WR);
    const timeval limit{2, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    char answer[64];
    while (::recv(socket, answer, sizeof answer, 0) > 0) {
    }
  }
  ::close(socket);
}

TEST_F(Quickstart, APeerThatDoesNotSpeakUcxIsNamedWhenItEndsAProcess) {
  for (const std::string& role : {std::string("device"), std::string("driver")}) {
    auto& run = processes_.start(
        "weft", run_into("out_" + role, {"training.steps=100000", "checkpoint.every=100000"}));
    ASSERT_TRUE(has_steps("out_" + role, 2)) << run.text();
    pid_t victim = 0;
    for (const pid_t pid : processes_.left())
      if (read_file(fmt::format("/proc/{}/cmdline", pid)).find("--weft-role=" + role) !=
          std::string::npos)
        victim = pid;
    ASSERT_NE(victim, 0);
    const auto ports = listening_ports(victim);
    ASSERT_FALSE(ports.empty());
    for (const std::uint16_t port : ports) send_what_is_not_ucx(port);
    const int status = run.wait(std::chrono::seconds(3));
    if (status == -1) {
      // This is not Debian 12's UCX, and it survives these bytes.
      ::kill(run.pid, SIGINT);
      EXPECT_EQ(run.wait(), 130) << run.text();
      GTEST_SKIP() << "this UCX survives what is not UCX";
    }
    EXPECT_EQ(status, 1);
    const std::string text = run.text();
    const std::string words = text.substr(std::min(text.size(), text.rfind("weft: run ")));
    EXPECT_THAT(words, AllOf(HasSubstr("SIGABRT"), HasSubstr("a program that does not use UCX"),
                             HasSubstr("actors/docs/security.md")));
    EXPECT_TRUE(processes_.none_left());
  }
}

TEST_F(Quickstart, PlanEndsAfterItsSummaryAndPrintsProgramsIfAsked) {
  auto& plan = processes_.run("weft", {"plan", "cluster.yaml"});
  ASSERT_EQ(plan.wait(), 0) << plan.text();
  EXPECT_THAT(plan.text(), AllOf(HasSubstr("eager-1f1b"), HasSubstr("resharding (weft)"),
                                 HasSubstr("front"), HasSubstr("back")));
  EXPECT_LT(std::ranges::count(plan.text(), '\n'), 100);
  EXPECT_THAT(plan.text(),
              ContainsRegex("driver\n  [0-9.]+ MiB for checkpoints \\(checkpoint.buffer\\), which "
                            "pass through it in 1 part\n  training continues while a checkpoint is "
                            "written, from copies of up to [0-9.]+ MiB"));
  auto& pausing =
      processes_.run("weft", {"plan", "cluster.yaml", "--set", "checkpoint.background=false"});
  EXPECT_THAT(pausing.text(), HasSubstr("\n  training pauses while a checkpoint is written\n"));
  auto& program = processes_.run("weft", {"plan", "cluster.yaml", "--programs", "back[1,0]"});
  ASSERT_EQ(program.wait(), 0);
  EXPECT_THAT(program.text(), HasSubstr("update 2"));
  auto& unknown = processes_.run("weft", {"plan", "cluster.yaml", "--programs", "back[1,1]"});
  EXPECT_EQ(unknown.wait(), 2);
  EXPECT_THAT(unknown.text(), HasSubstr("did you mean 'back["));
  auto& check = processes_.run("weft", {"check", "cluster.yaml", "--json"});
  ASSERT_EQ(check.wait(), 0);
  EXPECT_EQ(nlohmann::json::parse(check.text()).at("meshes").size(), 2u);
  auto& json = processes_.run("weft", {"plan", "cluster.yaml", "--json"});
  ASSERT_EQ(json.wait(), 0);
  const auto parsed = nlohmann::json::parse(json.text());
  EXPECT_EQ(parsed["devices"].size(), 4u);
  EXPECT_GT(parsed["edges"][0]["bytes_sent_per_microbatch"].get<int>(), 0);
  EXPECT_EQ(parsed["edges"][0]["path"]["by"], "host memory");
  EXPECT_THAT(parsed["edges"][0]["path"]["reason"].get<std::string>(), HasSubstr("is not a GPU"));
  auto& gpus =
      processes_.run("weft", {"plan", "cluster.yaml", "--json", "--set", "cluster.device=cuda"});
  ASSERT_EQ(gpus.wait(), 0);
  for (const auto& edge : nlohmann::json::parse(gpus.text())["edges"])
    EXPECT_EQ(edge["path"], nlohmann::json({{"by", "NCCL"}}));
}

TEST_F(Quickstart, AnOlderRunIsMovedAsideAndAWrongFileMovesNothing) {
  const std::vector<std::string> tiny = {"training.steps=1", "sample.tokens=1"};
  ASSERT_EQ(processes_.run("weft", run_into("out", tiny)).wait(), 0);
  EXPECT_EQ(processes_.run("weft", run_into("out", {"training.stepps=1"})).wait(), 2);
  EXPECT_FALSE(fs::exists(path("out.1")));
  auto& again = processes_.run("weft", run_into("out", tiny));
  ASSERT_EQ(again.wait(), 0);
  EXPECT_THAT(again.text(), HasSubstr("it is now out.1"));
  EXPECT_TRUE(fs::exists(path("out.1") / "metrics.jsonl"));
}

}  // namespace
}  // namespace weft::test

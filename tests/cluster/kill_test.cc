// Tests that deaths are reported. If any process gets SIGKILL during a long call, the caller gets
// the evidence, the run ends with status 1, and no process is left. Prints times; asserts only the
// limit of 2 s.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/killable_run.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void expect_told(const std::string& who, const std::optional<std::int64_t>& latency) {
  ASSERT_TRUE(latency.has_value()) << who << ": the caller was never told";
  fmt::print("  {} killed: the caller had its error after {:.1f} ms\n", who, *latency / 1e6);
}

std::string last_words(const std::string& text) {
  const auto at = text.rfind("weft: run 'killable' failed: ");
  return at == std::string::npos ? "none in: " + text : text.substr(at);
}

class KillDeviceOf : public ::testing::TestWithParam<int> {};

TEST_P(KillDeviceOf, NamesTheActorAndItsEvidence) {
  const int workers = GetParam();
  KillableRun run("kill_device", workers);
  const int rank = workers - 1;
  const pid_t victim = run.device(rank);
  expect_told("device process", run.kill_and_time(victim));
  EXPECT_EQ(run.run().wait(), 1);
  EXPECT_THAT(last_words(run.run().text()),
              AllOf(HasSubstr(fmt::format("front[x={}] (mesh front, rank {}) on worker{} device 0 "
                                          "(pid {}, epoch 1) died: SIGKILL",
                                          rank, rank, rank, victim)),
                    HasSubstr("rss "), HasSubstr(fmt::format("out/logs/front.1.r{}.log", rank))));
  EXPECT_TRUE(run.processes().none_left());
}
INSTANTIATE_TEST_SUITE_P(Workers, KillDeviceOf, ::testing::Values(1, 2, 3, 4, 8));

TEST(KillDevice, OthersThatComputeEndToo) {
  KillableRun run("kill_computing", 3, 0, true);
  expect_told("device process among computing ones", run.kill_and_time(run.device(1)));
  EXPECT_EQ(run.run().wait(), 1);
  EXPECT_TRUE(run.processes().none_left());
}

TEST(KillDevice, BigProcessIsMournedBeforeItsMemoryIsFreed) {
  KillableRun run("kill_big", 1, 512);
  expect_told("device process of 512 MiB", run.kill_and_time(run.device(0)));
  EXPECT_EQ(run.run().wait(), 1);
  EXPECT_THAT(
      last_words(run.run().text()),
      ::testing::ContainsRegex("died: SIGKILL, rss ([5-9][0-9][0-9][.0-9]* MiB|[1-9][0-9.]* GiB)"));
  EXPECT_TRUE(run.processes().none_left());
}

TEST(KillAgent, NamesTheActorsItTookAlong) {
  KillableRun run("kill_agent", 2);
  const pid_t victim = run.agent(1);
  expect_told("agent", run.kill_and_time(victim));
  EXPECT_EQ(run.run().wait(), 1);
  EXPECT_THAT(last_words(run.run().text()),
              AllOf(HasSubstr("front[x=1] (mesh front, rank 1) on worker1 device 0"),
                    HasSubstr(fmt::format("its agent (pid {}) died: SIGKILL", victim)),
                    HasSubstr("out/logs/agent.worker1.log")));
  EXPECT_TRUE(run.processes().none_left());
}

TEST(KillHead, ItComesBackAndTheRunGoesOnUntilItDiesTooOften) {
  KillableRun run("kill_head", 2);
  const auto devices = std::pair(run.device(0), run.device(1));
  for (int restart = 1; restart <= 3; ++restart) {
    const pid_t victim = run.head();
    ::kill(victim, SIGKILL);
    EXPECT_TRUE(eventually([&] {
      return run.run().text().find(fmt::format("weft: the head (pid {}) died: SIGKILL", victim)) !=
             std::string::npos;
    }));
    EXPECT_THAT(run.run().text(),
                HasSubstr(fmt::format("started again, restart {} of 3", restart)));
    // The hosts and the driver reconnect, and the head knows what runs.
    EXPECT_TRUE(eventually([&] {
      const auto events = run.events();
      return std::ranges::count(events, "head back", [](const auto& event) {
               return event["kind"].template get<std::string>();
             }) == restart;
    }));
    EXPECT_EQ(::kill(devices.first, 0), 0);
    EXPECT_EQ(::kill(devices.second, 0), 0);
    run.look();
  }
  const pid_t last = run.head();
  ::kill(last, SIGKILL);
  EXPECT_EQ(run.run().wait(), 1);
  EXPECT_THAT(last_words(run.run().text()),
              AllOf(HasSubstr(fmt::format("the head (pid {}) died: SIGKILL", last)),
                    HasSubstr("out/logs/head.log")));
  EXPECT_TRUE(run.processes().none_left());
}

TEST(KillDriver, EndsTheRunAndItsMeshes) {
  KillableRun run("kill_driver", 2);
  const std::int64_t killed = monotonic_ns();
  ::kill(run.driver(), SIGKILL);
  EXPECT_EQ(run.run().wait(), 1);
  fmt::print("  driver killed: the run had ended after {:.1f} ms\n",
             (monotonic_ns() - killed) / 1e6);
  EXPECT_THAT(
      last_words(run.run().text()),
      HasSubstr(fmt::format("its driver cluster_app (pid {}) died: SIGKILL", run.driver())));
  EXPECT_TRUE(run.processes().none_left());
}

TEST(KillDriver, OfAClusterThatRunsGivesItsDevicesBack) {
  RealProcesses processes("kill_joined_driver");
  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  processes.start("weft", {"join", address, "--name", "worker0"}).word_after("has joined cluster");
  processes.write("run.yaml", "name: r\napp: cluster_app\nwork: {actors: 1, seconds: 60}\n");
  auto& run = processes.start("weft", {"run", "run.yaml", "--head", address});
  const int driver = std::stoi(run.word_after("driver pid "));
  const int device = std::stoi(run.word_after("device 0 pid "));
  run.word_after("working");
  ::kill(driver, SIGKILL);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(eventually([&] {
    return processes.run("weft", {"status", "--json", "--head", address})
               .text()
               .find("\"meshes\": []") != std::string::npos;
  }));
  EXPECT_TRUE(eventually([&] { return ::kill(device, 0) != 0; }));
  EXPECT_EQ(processes.left().size(), 2u) << "head and agent stay";
}

TEST(KillSupervisor, TakesEverythingAlong) {
  KillableRun run("kill_weft_run", 2);
  ::kill(run.run().pid, SIGKILL);
  run.run().wait();
  EXPECT_TRUE(run.processes().none_left());
}

}  // namespace
}  // namespace weft::test

// Restart policies of spawn(), with real processes that are killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <cstdlib>
#include <string>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

class Supervision : public testing::TestWithParam<const char*> {};

TEST_P(Supervision, FollowsItsPolicyAfterAKill) {
  RealProcesses processes(std::string("supervision_") + GetParam());
  ::setenv("WEFT_TEST_SCENARIO", GetParam(), 1);
  auto& app = processes.run("supervised_app", {"--workers", "4"});
  EXPECT_EQ(app.wait(), 0) << app.text();
  EXPECT_TRUE(processes.none_left());
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Supervision,
                         testing::Values("one_for_one", "one_for_all", "rest_for_one", "escalated",
                                         "escalated_by_option", "two_at_once", "tells", "budget",
                                         "constructor", "calls", "handles", "stopped", "names",
                                         "shared_many", "shared_killed", "shared_one_for_all",
                                         "shared_constructor", "shared_singles", "shared_stopped"),
                         [](const auto& test) { return std::string(test.param); });

class SupervisionOfARestartedDriver : public testing::TestWithParam<const char*> {};

TEST_P(SupervisionOfARestartedDriver, FindsTheServiceThatItsPredecessorSpawned) {
  RealProcesses processes(std::string("supervision_") + GetParam());
  ::setenv("WEFT_TEST_SCENARIO", GetParam(), 1);
  processes.write("run.yaml",
                  "name: r\napp: supervised_app\ncluster: {hosts: [{name: a, devices: 1}]}\n"
                  "recovery: {restarts: 3}\n");
  auto& run = processes.start("weft", {"run", "run.yaml"});
  const pid_t driver = std::stoi(run.word_after("driver pid "));
  const std::string unit = run.word_after("unit pid ");
  EXPECT_THAT(unit, testing::EndsWith(", sum 1"));
  ::kill(driver, SIGKILL);
  EXPECT_EQ(run.wait(), 0) << run.text();
  EXPECT_THAT(run.text(),
              testing::HasSubstr("unit pid " + unit.substr(0, unit.find(',')) + ", sum 2\n"));
  EXPECT_TRUE(processes.none_left());
}

INSTANTIATE_TEST_SUITE_P(Processes, SupervisionOfARestartedDriver,
                         testing::Values("adopted", "adopted_shared"),
                         [](const auto& test) { return std::string(test.param); });

TEST(SharedProcesses, ARestartedDriverSpawnsLostActorsAnewIfTheirPolicyRestartsNone) {
  RealProcesses processes("supervision_adopted_lost");
  ::setenv("WEFT_TEST_SCENARIO", "adopted_lost", 1);
  processes.write("run.yaml",
                  "name: r\napp: supervised_app\ncluster: {hosts: [{name: a, devices: 1}]}\n"
                  "recovery: {restarts: 3}\n");
  auto& run = processes.run("weft", {"run", "run.yaml"});
  EXPECT_EQ(run.wait(), 0) << run.text();
  EXPECT_THAT(run.text(), testing::HasSubstr("the next driver's sum is 1\n"));
  EXPECT_TRUE(processes.none_left());
}

TEST(SharedProcesses, OutliveTheHeadAndAreListed) {
  RealProcesses processes("shared_and_head");
  const auto start_head = [&](const std::string& listen) {
    return &processes.start("weft", {"head", "--listen", listen, "--state", "state"});
  };
  auto* head = start_head("127.0.0.1:0");
  const std::string address = head->word_after("Weft's head listens on ");
  processes.start("weft", {"join", address, "--name", "worker0", "--devices", "1"})
      .word_after("has joined cluster");
  ::setenv("WEFT_TEST_SCENARIO", "shared_and_head", 1);
  processes.write(
      "run.yaml",
      "name: r\napp: supervised_app\ncluster: {hosts: [{name: worker0, devices: 1}]}\n");
  auto& run = processes.start("weft", {"run", "run.yaml", "--head", address, "--out", "r"});
  const std::string pid = run.word_after("unit pid ");
  EXPECT_THAT(processes.run("weft", {"actors", "--head", address}).text(), testing::HasSubstr(pid));
  EXPECT_THAT(processes.run("weft", {"logs", "unit", "--head", address}).text(),
              testing::HasSubstr("ready (pid " + pid));
  ::kill(head->pid, SIGKILL);
  (void)head->wait();
  head = start_head(address);
  head->word_after("Weft's head listens on ");
  const std::string status = processes.run("weft", {"status", "--head", address}).text();
  EXPECT_THAT(status, testing::HasSubstr("shared process of run r: 1 actor, pid " + pid + "\n"));
  EXPECT_THAT(status, testing::HasSubstr("worker0: 1 actor\n"));
  processes.write("restarted", "");
  EXPECT_EQ(run.wait(), 0) << run.text();
  EXPECT_EQ(processes.run("weft", {"stop", "--head", address}).wait(), 0);
  EXPECT_EQ(head->wait(), 0) << head->text();
  EXPECT_TRUE(processes.none_left());
}

TEST(NamesOfARun, LeadOtherRunsToItsActorsWhileTheHeadIsKilledAndStartedAgain) {
  RealProcesses processes("names_of_runs");
  const auto start_head = [&](const std::string& listen) {
    return &processes.start("weft", {"head", "--listen", listen, "--state", "state"});
  };
  auto* head = start_head("127.0.0.1:0");
  const std::string address = head->word_after("Weft's head listens on ");
  processes.start("weft", {"join", address, "--name", "a", "--devices", "6"})
      .word_after("has joined cluster");
  const auto run = [&](const std::string& name, const char* scenario) {
    ::setenv("WEFT_TEST_SCENARIO", scenario, 1);
    processes.write(name + ".yaml", "name: " + name +
                                        "\napp: supervised_app\n"
                                        "cluster: {hosts: [{name: a, devices: 6}]}\n");
    return &processes.start("weft", {"run", name + ".yaml", "--head", address, "--out", name});
  };
  auto* serving = run("serving", "serves");
  serving->word_after("serving\n");
  auto* asking = run("asking", "asks");
  asking->word_after("asking\n");
  const char* const restarts = std::getenv("WEFT_TEST_HEAD_RESTARTS");
  for (int i = 0; i < (restarts == nullptr ? 3 : std::atoi(restarts)); ++i) {
    ::kill(head->pid, SIGKILL);
    (void)head->wait();
    head = start_head(address);
    head->word_after("Weft's head listens on ");
  }
  processes.write("enough", "");
  EXPECT_EQ(asking->wait(), 0) << asking->text();
  EXPECT_THAT(asking->text(), testing::HasSubstr(" calls\n"));
  processes.write("over", "");
  EXPECT_EQ(serving->wait(), 0) << serving->text();
  EXPECT_EQ(processes.run("weft", {"stop", "--head", address}).wait(), 0);
}

class ActorsOfTheCluster : public testing::TestWithParam<const char*> {};

TEST_P(ActorsOfTheCluster, OutliveRunsAndTheHead) {
  RealProcesses processes(std::string("kept_actors_") + GetParam());
  const auto start_head = [&](const std::string& listen) {
    return &processes.start("weft", {"head", "--listen", listen, "--state", "state"});
  };
  auto* head = start_head("127.0.0.1:0");
  const std::string address = head->word_after("Weft's head listens on ");
  processes.start("weft", {"join", address, "--name", "a", "--devices", "1"})
      .word_after("has joined cluster");
  processes.write("run.yaml",
                  "name: r\napp: supervised_app\ncluster: {hosts: [{name: a, devices: 1}]}\n");
  const auto run = [&](const char* scenario) {
    ::setenv("WEFT_TEST_SCENARIO", scenario, 1);
    auto& app = processes.run("weft", {"run", "run.yaml", "--head", address, "--out", scenario});
    EXPECT_EQ(app.wait(), 0) << app.text();
    return app.text();
  };
  const std::string kept = run(GetParam());
  const auto at = kept.find("unit pid ");
  ASSERT_NE(at, std::string::npos) << kept;
  const std::string pid = kept.substr(at, kept.find('\n', at) - at);
  EXPECT_THAT(run("uses"), testing::HasSubstr(pid + ", sum 2\n"));
  for (const int signal : {SIGKILL, SIGTERM}) {
    ::kill(head->pid, signal);
    (void)head->wait();
    head = start_head(address);
    head->word_after("Weft's head listens on ");
    EXPECT_THAT(run("uses"), testing::HasSubstr(", sum 2\n")) << "the head finds the actor again";
  }
  (void)run("stops");
  EXPECT_EQ(processes.run("weft", {"stop", "--head", address}).wait(), 0);
  EXPECT_EQ(head->wait(), 0) << head->text();
  EXPECT_TRUE(processes.none_left());
}

INSTANTIATE_TEST_SUITE_P(Processes, ActorsOfTheCluster, testing::Values("keeps", "keeps_shared"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace weft::test

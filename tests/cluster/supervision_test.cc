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
                                         "constructor", "calls", "handles", "stopped"),
                         [](const auto& test) { return std::string(test.param); });

TEST(SupervisionOfARestartedDriver, FindsTheServiceThatItsPredecessorSpawned) {
  RealProcesses processes("supervision_adopted");
  ::setenv("WEFT_TEST_SCENARIO", "adopted", 1);
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

}  // namespace
}  // namespace weft::test

// Actors that spawn actors, with real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <string>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

class NestedActors : public testing::TestWithParam<const char*> {};

TEST_P(NestedActors, StartAndEndWithTheirParents) {
  RealProcesses processes(std::string("nested_") + GetParam());
  ::setenv("WEFT_TEST_SCENARIO", GetParam(), 1);
  auto& app = processes.run("nested_app", {"--workers", "7"});
  EXPECT_EQ(app.wait(), 0) << app.text();
  EXPECT_TRUE(processes.none_left());
}

INSTANTIATE_TEST_SUITE_P(Scenarios, NestedActors,
                         testing::Values("tree", "stops", "killed", "exits", "escalates", "decides",
                                         "cancelled", "hosted", "kept"),
                         [](const auto& test) { return std::string(test.param); });

TEST(NestedActorsOfARestartedDriver, KeepTheirStateAndTheirParentsOrEnd) {
  RealProcesses processes("nested_adopted");
  ::setenv("WEFT_TEST_SCENARIO", "adopted", 1);
  processes.write("run.yaml",
                  "name: r\napp: nested_app\ncluster: {hosts: [{name: a, devices: 6}]}\n"
                  "recovery: {restarts: 3}\n");
  auto& run = processes.start("weft", {"run", "run.yaml"});
  const pid_t lost = std::stoi(run.word_after("lost pid "));
  ::kill(std::stoi(run.word_after("driver pid ")), SIGKILL);
  ::kill(lost, SIGKILL);
  EXPECT_EQ(run.wait(), 0) << run.text();
  EXPECT_THAT(run.text(), testing::HasSubstr("adopted\n"));
  EXPECT_TRUE(processes.none_left());
}

}  // namespace
}  // namespace weft::test

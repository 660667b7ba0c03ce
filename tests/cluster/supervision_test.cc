// Restart policies of spawn(), with real processes that are killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft::test

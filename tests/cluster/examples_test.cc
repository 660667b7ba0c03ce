// The programs of apps/examples, as a reader starts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

using ::testing::HasSubstr;

TEST(Examples, TheSupervisedServiceSurvivesAKill) {
  RealProcesses processes("example_service");
  auto& service = processes.start("example_supervised_service", {});
  const pid_t first = std::stoi(service.word_after("pid "));
  ::kill(first, SIGKILL);
  service.word_after("restarts 1, calls 3");
  EXPECT_THAT(service.text(), testing::Not(HasSubstr("failed")));
  ::kill(service.pid, SIGINT);
  EXPECT_EQ(service.wait(), 130) << service.text();
  EXPECT_TRUE(processes.none_left());
}

TEST(Examples, TheParameterServerFindsTheLine) {
  RealProcesses processes("example_server");
  auto& server = processes.run("example_parameter_server", {"--workers", "4"});
  EXPECT_EQ(server.wait(), 0) << server.text();
  EXPECT_THAT(server.text(), HasSubstr("y = 3.00 x + 1.00\n"));
  EXPECT_TRUE(processes.none_left());
}

TEST(Examples, ThePoolDoesEachBatch) {
  RealProcesses processes("example_pool");
  auto& pool = processes.run("example_pool_with_map", {"--workers", "3"});
  EXPECT_EQ(pool.wait(), 0) << pool.text();
  EXPECT_THAT(pool.text(), HasSubstr("pi = 3.14\nbatches: 64\n"));
  EXPECT_TRUE(processes.none_left());
}

}  // namespace
}  // namespace weft::test

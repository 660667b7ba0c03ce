// The programs of apps/examples, as a reader starts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
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

TEST(Examples, TheWordCountMergesTheCountsOfAllFiles) {
  RealProcesses processes("example_words");
  std::filesystem::create_directory(processes.directory() / "texts");
  processes.write("texts/a.txt", "the cat and the dog\nthe end");
  processes.write("texts/b.txt", "a dog, the");
  processes.write("texts/c.txt", "dog and cat");
  auto& count = processes.run("example_word_count", {});
  EXPECT_EQ(count.wait(), 0) << count.text();
  EXPECT_THAT(count.text(), HasSubstr("the 4\ndog 3\nand 2\ncat 2\na 1\n"));
  EXPECT_TRUE(processes.none_left());
}

TEST(Examples, TheFinderStopsAfterThreeLines) {
  RealProcesses processes("example_lines");
  std::filesystem::create_directory(processes.directory() / "texts");
  std::string text = "nothing here\n";
  for (int i = 0; i < 10'000; ++i) text += "the line\n";
  processes.write("texts/a.txt", text);
  auto& finder = processes.run("example_find_lines", {});
  EXPECT_EQ(finder.wait(), 0) << finder.text();
  EXPECT_THAT(finder.text(),
              HasSubstr("a.txt:2: the line\na.txt:3: the line\na.txt:4: the line\n"));
  EXPECT_THAT(finder.text(), testing::Not(HasSubstr("a.txt:5")));
  EXPECT_TRUE(processes.none_left());
}

TEST(Examples, TheManagerSpawnsATeamForEachJob) {
  RealProcesses processes("example_team");
  auto& team = processes.run("example_job_team", {"--workers", "3"});
  EXPECT_EQ(team.wait(), 0) << team.text();
  EXPECT_THAT(team.text(), HasSubstr("primes below 10000: 1229\nprimes below 100000: 9592\n"));
  EXPECT_TRUE(processes.none_left());
}

TEST(Examples, TheLearnerSharesItsWeights) {
  RealProcesses processes("example_rollouts");
  auto& learner = processes.run("example_rollout_workers", {"--workers", "2", "--devices", "2"});
  EXPECT_EQ(learner.wait(), 0) << learner.text();
  EXPECT_THAT(learner.text(), HasSubstr("weights: 0.000 0.841 0.909 ...\n"));
  EXPECT_TRUE(processes.none_left());
}

}  // namespace
}  // namespace weft::test

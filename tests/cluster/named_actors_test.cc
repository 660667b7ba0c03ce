// weft actors, and commands that take the names of actors, with real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// Cluster of a head and a host with four devices.
class NamedActors : public ::testing::Test {
 protected:
  NamedActors() {
    auto& head = processes_.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
    address_ = head.word_after("Weft's head listens on ");
    processes_.start("weft", {"join", address_, "--name", "a", "--devices", "4"})
        .word_after("has joined cluster");
  }

  /// Starts a run with two actors "front", which work, and waits until they do.
  RealProcesses::Process& start_run(const std::string& name, const std::string& more = "") {
    processes_.write(name + ".yaml",
                     fmt::format("name: {}\napp: cluster_app\ncluster: {{launcher: manual, hosts: "
                                 "[{{name: a}}]}}\nwork: {{actors: 2, seconds: 600{}}}\n",
                                 name, more));
    auto& run = processes_.start("weft", {"run", name + ".yaml", "--head", address_});
    run.word_after("working");
    EXPECT_TRUE(eventually([&] {
      const auto named = actors();
      return std::ranges::any_of(named, [&](const auto& actor) { return actor["run"] == name; });
    }));
    return run;
  }
  RealProcesses::Process& weft(std::vector<std::string> words) {
    words.insert(words.end(), {"--head", address_});
    return processes_.run("weft", words);
  }
  nlohmann::json actors() { return nlohmann::json::parse(weft({"actors", "--json"}).text()); }

  RealProcesses processes_{"named_actors"};
  std::string address_;
};

TEST_F(NamedActors, AreListedWithTheirPlacesAndCalls) {
  EXPECT_THAT(weft({"actors"}).text(), HasSubstr("this cluster has no named actor"));
  EXPECT_EQ(actors(), nlohmann::json::array());
  auto& run = start_run("train");
  const int pid = std::stoi(run.word_after("device 1 pid "));
  nlohmann::json second;
  EXPECT_TRUE(eventually([&] {
    second = actors().at(1);
    return second["calls"] == 1;
  })) << second;
  EXPECT_EQ(second["name"], "train/front[x=1]");
  EXPECT_EQ(second["class"], "test.worker");
  EXPECT_EQ(second["host"], "a");
  EXPECT_EQ(second["pid"], pid);
  EXPECT_EQ(second["state"], "running");
  EXPECT_EQ(second["queue"], 0);
  EXPECT_THAT(weft({"actors"}).text(),
              ContainsRegex("train/front\\[x=1\\]  test\\.worker  a     [0-9]+ *  running      1  "
                            "    0\n"));
  ::kill(pid, SIGSTOP);
  EXPECT_THAT(weft({"actors", "--within", "0.3"}).text(),
              AllOf(ContainsRegex("train/front\\[x=0\\] [^\n]*  running      1      0\n"),
                    ContainsRegex("train/front\\[x=1\\] [^\n]*  running      -      -\n"),
                    ContainsRegex("\ntrain/front\\[x=1\\]: does not answer within [^\n]* it is "
                                  "stopped \\(state T\\)\n")));
  ::kill(pid, SIGCONT);
}

TEST_F(NamedActors, AreFoundByLogsAndWhy) {
  start_run("train");
  const std::string both = weft({"logs", "front"}).text();
  EXPECT_THAT(both, AllOf(HasSubstr("front[x=0]: ready"), HasSubstr("front[x=1]: ready")));
  EXPECT_THAT(weft({"logs", "train/front[1]"}).text(),
              AllOf(HasSubstr("front[x=1]: ready"), Not(HasSubstr("front[x=0]"))));
  auto& unknown = weft({"logs", "frnt"});
  EXPECT_EQ(unknown.wait(), 1);
  EXPECT_THAT(unknown.text(), HasSubstr("no run and no named actor 'frnt'; did you mean 'front'?"));
  start_run("other");
  auto& several = weft({"logs", "front"});
  EXPECT_EQ(several.wait(), 2);
  EXPECT_THAT(several.text(), HasSubstr("other/front, train/front; give one"));
  EXPECT_THAT(weft({"why", "other/front[1]"}).text(),
              AllOf(HasSubstr("is waited for by driver of other: 'work'"),
                    Not(HasSubstr("driver of train"))));
  auto& mesh = weft({"why", "train/front"});
  EXPECT_EQ(mesh.wait(), 2);
  EXPECT_THAT(mesh.text(), HasSubstr("'front' is a mesh of 2 actors; give one, such as 'front[x="));
}

TEST_F(NamedActors, AreStoppedByTheirOwner) {
  start_run("train");
  start_run("other");
  auto& unknown = weft({"actors", "stop", "train/frnt"});
  EXPECT_EQ(unknown.wait(), 1);
  EXPECT_THAT(unknown.text(), AllOf(HasSubstr("no actor is named 'train/frnt'"),
                                    HasSubstr("did you mean 'train/front'?")));
  auto& stopped = weft({"actors", "stop", "train/front"});
  EXPECT_EQ(stopped.wait(), 0) << stopped.text();
  EXPECT_EQ(stopped.text(), "stopped train/front: 2 actors\n");
  const auto left = actors();
  ASSERT_EQ(left.size(), 2u) << left;
  EXPECT_EQ(left[0]["run"], "other");
}

TEST_F(NamedActors, OfTheClusterAreListedWithoutARun) {
  start_run("train", ", clock: true");
  weft({"cancel", "train", "--now"});
  nlohmann::json listed;
  EXPECT_TRUE(eventually([&] {
    listed = actors();
    return listed.size() == 1;
  })) << listed;
  EXPECT_EQ(listed[0]["name"], "clock");
  EXPECT_EQ(listed[0]["host"], "a");
  EXPECT_EQ(listed[0]["calls"], 0) << "its process has answered: " << listed;
  EXPECT_THAT(weft({"why", "cluster/clock"}).text(), HasSubstr("clock (a, pid "));
  auto& logs = weft({"logs", "clock"});
  EXPECT_EQ(logs.wait(), 1);
  EXPECT_THAT(logs.text(), HasSubstr("'clock' belongs to the cluster"));
  EXPECT_EQ(weft({"actors", "stop", "clock"}).text(), "stopped clock\n");
  EXPECT_EQ(actors(), nlohmann::json::array());
}

}  // namespace
}  // namespace weft::test

// Tests weft run, check and plan with a run file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "actors/access/token.h"
#include "actors/cluster/cluster.h"
#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RunOnWorkers : public ::testing::TestWithParam<int> {};

TEST_P(RunOnWorkers, EndsWithStatusZeroAndLeavesNothing) {
  const int workers = GetParam();
  RealProcesses processes("workers");
  std::string hosts;
  for (int i = 0; i < workers; ++i)
    hosts += fmt::format("{}{{name: worker{}}}", i == 0 ? "" : ", ", i);
  processes.write(
      "run.yaml",
      fmt::format(
          "name: workers\napp: cluster_app\ncluster: {{hosts: [{}]}}\nwork: {{actors: {}}}\n",
          hosts, workers));
  auto& run = processes.run("weft", {"run", "run.yaml"});
  EXPECT_EQ(run.wait(), 0) << run.text();
  EXPECT_THAT(run.text(), AllOf(HasSubstr(fmt::format("total {}\n", 42 * workers)),
                                HasSubstr("worker0 (1 device)")));
  EXPECT_EQ(run.text().find('\x1b'), std::string::npos) << "no colours in a pipe";
  EXPECT_TRUE(std::filesystem::exists(processes.directory() / "runs/workers/logs/front.1.r0.log"));
  EXPECT_TRUE(processes.none_left());
}
INSTANTIATE_TEST_SUITE_P(Cluster, RunOnWorkers, ::testing::Values(1, 2, 3, 4, 8));

TEST(Run, WrongFileIsRefusedBeforeAnythingStarts) {
  RealProcesses processes("wrong_yaml");
  processes.write(
      "run.yaml",
      "name: r\napp: cluster_app\ncluster: {hosts: [{name: a, device: 1}]}\nwork: {actors: two}\n");
  auto& header = processes.run("weft", {"run", "run.yaml"});
  EXPECT_EQ(header.wait(), 2);
  EXPECT_EQ(header.text(),
            "run.yaml:3:29: unknown key 'device' in cluster.hosts[0]; did you mean 'devices'?\n");
  auto& app = processes.run(
      "weft", {"run", "run.yaml", "--set", "cluster.hosts=[{name: a}]", "--set", "wrok={}"});
  EXPECT_EQ(app.wait(), 2);
  EXPECT_THAT(
      app.text(),
      AllOf(HasSubstr(
                "run.yaml:4:16: work.actors: expected a whole number of at least 1, found 'two'"),
            HasSubstr("command line: --set wrok={}: unknown key 'wrok'; did you mean 'work'?")));
  EXPECT_FALSE(std::filesystem::exists(processes.directory() / "runs"));
  auto& check = processes.run("weft", {"check", "run.yaml", "--set", "cluster.hosts=[{name: a}]",
                                       "--set", "work.actors=1"});
  EXPECT_EQ(check.wait(), 0) << check.text();
  EXPECT_EQ(check.text(), "run.yaml: valid\n");
  auto& json =
      processes.run("weft", {"check", "run.yaml", "--json", "--set", "cluster.hosts=[{name: a}]"});
  EXPECT_EQ(json.wait(), 2);
  const auto problem = nlohmann::json::parse(json.text()).at("problems").at(0);
  EXPECT_EQ(problem.at("file"), "run.yaml");
  EXPECT_EQ(problem.at("line"), 4);
  EXPECT_EQ(problem.at("column"), 16);
  EXPECT_EQ(problem.at("key"), "work.actors");
  auto& early = processes.run("weft", {"check", "run.yaml", "--json"});
  EXPECT_EQ(early.wait(), 2);
  EXPECT_EQ(nlohmann::json::parse(early.text()).at("problems").at(0).at("nearest"), "devices");
  auto& missing = processes.run("weft", {"run", "nothing.yaml"});
  EXPECT_EQ(missing.wait(), 2);
  EXPECT_THAT(missing.text(), HasSubstr("nothing.yaml: cannot be read"));
}

TEST(Run, TheLogLevelReachesEveryProcess) {
  RealProcesses processes("logs");
  processes.write("run.yaml", "name: r\napp: cluster_app\nwork: {actors: 1}\n");
  const auto log = [&](const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(processes.directory() / "runs/r/logs" / name).rdbuf();
    return text.str();
  };
  ASSERT_EQ(processes.run("weft", {"run", "run.yaml"}).wait(), 0);
  EXPECT_THAT(log("front.1.r0.log"), HasSubstr(" info: front"));
  EXPECT_THAT(log("head.log"), HasSubstr(" info: host worker0 joined"));
  ASSERT_EQ(processes.run("weft", {"run", "run.yaml", "--set", "logs.level=error"}).wait(), 0);
  for (const char* name : {"front.1.r0.log", "head.log", "agent.worker0.log"})
    EXPECT_EQ(log(name), "") << name;
  auto& wrong = processes.run("weft", {"run", "run.yaml", "--set", "logs.level=eror"});
  EXPECT_EQ(wrong.wait(), 2);
  EXPECT_THAT(wrong.text(), HasSubstr("did you mean 'error'?"));
}

TEST(Run, UnknownCommandsAndOptionsAreUsageErrors) {
  RealProcesses processes("usage");
  auto& unknown = processes.run("weft", {"chek"});
  EXPECT_EQ(unknown.wait(), 2);
  EXPECT_THAT(unknown.text(), AllOf(HasSubstr("weft: there is no command 'chek'"),
                                    HasSubstr("did you mean 'check'?")));
  EXPECT_EQ(processes.run("weft", {"run"}).wait(), 2);
  EXPECT_EQ(processes.run("weft", {"join", "nonsense"}).wait(), 2);
  EXPECT_EQ(processes.run("weft", {"--help"}).wait(), 0);
}

TEST(Run, OutputThatCannotBeWrittenGivesStatusOneAndTheReason) {
  RealProcesses processes("full_output");
  processes.write("run.yaml", "name: r\napp: cluster_app\nwork: {actors: 1}\n");
  const auto said = processes.directory() / "said";
  const auto shell = [&](const std::string& words, const std::string& output) {
    const std::string command =
        fmt::format("cd {} && {} {} {} 2>{}", processes.directory().string(),
                    RealProcesses::program("weft").string(), words, output, said.string());
    return WEXITSTATUS(std::system(command.c_str()));
  };
  for (const char* words : {"check run.yaml", "schedule show zb-h1", "help run", "--version"}) {
    EXPECT_EQ(shell(words, ">/dev/full"), 1) << words;
    EXPECT_THAT(read_file(said),
                HasSubstr(": cannot write to standard output: No space left on device\n"))
        << words;
    EXPECT_EQ(std::ranges::count(read_file(said), '\n'), 1) << words << ": " << read_file(said);
  }
  EXPECT_EQ(shell("check run.yaml", ">&-"), 0) << read_file(said);
  EXPECT_EQ(read_file(said), "");
  EXPECT_EQ(shell("schedule show zb-h1", "| true"), 0);
  EXPECT_EQ(read_file(said), "");
}

TEST(Run, AnErrorInAMethodIsTheLastWords) {
  RealProcesses processes("app_fails");
  processes.write("run.yaml",
                  "name: r\napp: cluster_app\nwork: {actors: 1, fail: the data is gone}\n");
  auto& run = processes.run("weft", {"run", "run.yaml", "--out", "out"});
  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(run.text().ends_with("weft: run 'r' failed: the data is gone\n")) << run.text();
  EXPECT_TRUE(processes.none_left());
}

TEST(Run, DeviceProcessThatCannotStartIsTheLastWords) {
  RealProcesses processes("crash");
  processes.write("run.yaml", "name: r\napp: cluster_app\nwork: {actors: 1, crash: true}\n");
  auto& run = processes.run("weft", {"run", "run.yaml", "--out", "out"});
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.text(), AllOf(HasSubstr("weft: run 'r' failed: front[x=0] on worker0 (pid "),
                                HasSubstr("ended before it was ready: SIGABRT"),
                                HasSubstr("log: out/logs/front.1.r0.log")));
  EXPECT_TRUE(processes.none_left());
}

TEST(Run, StoppedClusterIsTheLastWords) {
  RealProcesses processes("stopped");
  processes.write("run.yaml", "name: r\napp: cluster_app\nwork: {actors: 1, seconds: 60}\n");
  auto& run = processes.start("weft", {"run", "run.yaml", "--out", "out"});
  std::string address = run.word_after(" at ");
  address = address.substr(0, address.find(": "));
  run.word_after("working");
  EXPECT_EQ(processes.run("weft", {"stop", "--now", "--head", address}).wait(), 0);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.text(), HasSubstr("weft: run 'r' failed: the cluster was stopped: weft stop"));
  EXPECT_TRUE(processes.none_left());
}

TEST(Run, CtrlCEndsEverythingWithStatus130) {
  RealProcesses processes("ctrl_c");
  processes.write("run.yaml", "name: r\napp: cluster_app\nwork: {actors: 1, seconds: 60}\n");
  auto& run = processes.start("weft", {"run", "run.yaml", "--out", "out"});
  run.word_after("working");
  ::kill(run.pid, SIGINT);
  EXPECT_EQ(run.wait(), 130) << run.text();
  EXPECT_TRUE(processes.none_left());
}

TEST(Run, ACleanUpThatHangsIsNamedAndCutOff) {
  RealProcesses processes("lingers");
  processes.write("run.yaml", "name: r\napp: cluster_app\nwork: {actors: 1, lingers: 3600}\n");
  auto& run = processes.start("weft", {"run", "run.yaml", "--out", "out"});
  run.word_after("total ");
  EXPECT_EQ(run.wait(), 0) << run.text();
  EXPECT_THAT(run.text(),
              HasSubstr("weft: the run is complete, but its clean-up did not finish within 8 s and "
                        "was cut off, waiting for: 'work' to front[x=0]"));
  EXPECT_TRUE(processes.none_left());
}

/// Actor that no binary provides, as its processes are never started.
class Nobody final {
 public:
  explicit Nobody(actors::Context&) {}
  void nothing() {}
  static constexpr auto endpoints =
      actors::interface<"test.nobody", 1>(actors::on<&Nobody::nothing>("nothing"));
};

TEST(Run, OtherBinaryThanTheDriversIsRefused) {
  RealProcesses processes("wrong_binary");
  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  processes.start("weft", {"join", address, "--name", "a"}).word_after("has joined cluster");
  const auto try_binary = [&](const std::string& binary) {
    actors::SystemOptions of_driver;
    of_driver.token = actors::read_token_file(processes.directory() / "state" / "token");
    actors::System system(of_driver);
    actors::ClusterOptions options;
    options.binary = binary;
    actors::Cluster cluster(system, actors::Address::parse(address), options);
    try {
      const auto mesh = cluster.spawn<Nobody>("front", MeshShape{{"x", 1}}, {});
      return std::string("spawned");
    } catch (const Error& error) {
      return fmt::format("{}", error.message());
    }
  };
  EXPECT_THAT(try_binary(RealProcesses::program("cluster_app")),
              AllOf(HasSubstr("the app's binary " + RealProcesses::program("cluster_app").string() +
                              " on host a differs from the driver's (SHA-256 "),
                    HasSubstr("copy the driver's binary to this host")));
  EXPECT_THAT(try_binary("/nowhere/app"), HasSubstr("host a has no file /nowhere/app"));
  // A refused mesh releases its device.
  EXPECT_THAT(processes.run("weft", {"status", "--head", address}).text(),
              HasSubstr("a     1        1"));
}

}  // namespace
}  // namespace weft::test

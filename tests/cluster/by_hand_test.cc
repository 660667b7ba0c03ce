// Tests the commands that an operator types in separate terminals, and an author's own program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ByHand, HeadJoinStatusStop) {
  RealProcesses processes("by_hand");
  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address =
      head.word_after("weft join ").substr(0, head.word_after("weft join ").find(' '));
  EXPECT_THAT(head.text(), AllOf(HasSubstr("loopback only"),
                                 HasSubstr("weft join " + address + " --name worker0"),
                                 HasSubstr("weft stop --head " + address)));

  auto& first = processes.start("weft", {"join", address, "--name", "alpha", "--devices", "2"});
  auto& second = processes.start("weft", {"join", address, "--name", "beta"});
  first.word_after("has joined cluster");
  second.word_after("has joined cluster");
  auto& twin = processes.run("weft", {"join", address, "--name", "beta"});
  EXPECT_EQ(twin.wait(), 1);
  EXPECT_THAT(
      twin.text(),
      HasSubstr("a host named 'beta' has joined already; give this one another name with --name"));

  const auto status =
      nlohmann::json::parse(processes.run("weft", {"status", "--head", address, "--json"}).text());
  ASSERT_EQ(status["hosts"].size(), 2u);
  EXPECT_EQ(status["hosts"][0]["name"], "alpha");
  EXPECT_EQ(status["hosts"][0]["devices"], 2);
  EXPECT_EQ(status["hosts"][0]["agent_pid"], first.pid);
  EXPECT_EQ(status["pid"], head.pid);
  EXPECT_THAT(processes.run("weft", {"status", "--head", address}).text(),
              AllOf(HasSubstr("alpha"), HasSubstr("host beta joined: 1 device")));

  auto& stop = processes.run("weft", {"stop", "--head", address});
  EXPECT_EQ(stop.wait(), 0) << stop.text();
  EXPECT_EQ(first.wait(), 0) << first.text();
  EXPECT_EQ(second.wait(), 0) << second.text();
  EXPECT_EQ(head.wait(), 0) << head.text();
  EXPECT_TRUE(processes.none_left());
}

TEST(ByHand, AMissingHeadIsReportedWithAdvice) {
  RealProcesses processes("no_head");
  auto& status = processes.run("weft", {"status", "--head", "127.0.0.1:1"});
  EXPECT_EQ(status.wait(), 1);
  EXPECT_THAT(status.text(), AllOf(HasSubstr("no token found for the head at 127.0.0.1:1: "),
                                   HasSubstr("it comes from --head HOST:PORT or WEFT_HEAD"),
                                   HasSubstr("--token-file FILE")));
}

TEST(ByHand, AnUnknownHostNameAndASilentHeadAreReported) {
  RealProcesses processes("no_host");
  auto& unknown = processes.run("weft", {"status", "--head", "no-such-host.invalid:7077"});
  EXPECT_EQ(unknown.wait(), 1);
  EXPECT_THAT(unknown.text(), HasSubstr("there is no host of the name 'no-such-host.invalid'"));
  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  ::kill(head.pid, SIGSTOP);
  auto& silent = processes.run("weft", {"status", "--head", address});
  EXPECT_EQ(silent.wait(), 1);
  EXPECT_THAT(silent.text(),
              HasSubstr("accepted the connection but sent no Weft handshake within 3 s"));
}

TEST(ByHand, MistypedWordsGetTheNearestAndMissingOnesAnExample) {
  RealProcesses processes("mistyped");
  const auto said = [&](const std::vector<std::string>& words) {
    auto& weft = processes.run("weft", words);
    EXPECT_EQ(weft.wait(), 2) << weft.text();
    return weft.text();
  };
  EXPECT_THAT(said({"rnu"}), StartsWith("weft: there is no command 'rnu'"));
  EXPECT_THAT(said({"rnu"}), HasSubstr("did you mean 'run'?\n"));
  EXPECT_THAT(said({"--hlp"}),
              StartsWith("weft: there is no option --hlp; did you mean '--help'?\n"));
  EXPECT_THAT(said({"plan", "--reshrd"}),
              StartsWith("weft: plan has no option --reshrd; did you mean '--reshard'?\n"));
  EXPECT_THAT(said({"schedule", "drw"}), HasSubstr("did you mean 'draw'?\n"));
  EXPECT_THAT(said({"run"}),
              StartsWith("weft: run: file is required; for example: weft run cluster.yaml"));
  auto& help = processes.run("weft", {"help", "run"});
  EXPECT_EQ(help.wait(), 0);
  EXPECT_THAT(help.text(), HasSubstr("Usage: weft run"));
  EXPECT_EQ(processes.run("weft", {"help"}).wait(), 0);
}

TEST(ByHand, SecondHeadOnTheSameStateIsRefused) {
  RealProcesses processes("two_heads");
  auto& first = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  first.word_after("weft join ");
  auto& second = processes.run("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  EXPECT_EQ(second.wait(), 1);
  EXPECT_THAT(second.text(), HasSubstr("another head runs on the state directory"));
}

TEST(ByHand, ANameThatIsAPathIsRefused) {
  RealProcesses processes("names");
  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  auto& join = processes.run("weft", {"join", address, "--name", "../../etc/x y"});
  EXPECT_EQ(join.wait(), 2);
  EXPECT_THAT(join.text(),
              HasSubstr("the name of this host (--name): expected a name of at most 100 letters"));
  EXPECT_FALSE(std::filesystem::exists(processes.directory() / "weft-logs"));
  // The name is checked before the head is contacted.
  auto& alone = processes.run("weft", {"join", "127.0.0.1:1", "--name", "../../etc/x y"});
  EXPECT_EQ(alone.wait(), 2);
  EXPECT_THAT(alone.text(),
              HasSubstr("the name of this host (--name): expected a name of at most 100 letters"));
}

TEST(ByHand, HostsWaitForTheHeadForItsGraceAndThenEnd) {
  RealProcesses processes("head_dies");
  auto& head = processes.start(
      "weft", {"head", "--listen", "127.0.0.1:0", "--state", "state", "--head-grace", "1.5"});
  const std::string address = head.word_after("Weft's head listens on ");
  auto& host = processes.start("weft", {"join", address, "--name", "alpha"});
  host.word_after("has joined cluster");
  ::kill(head.pid, SIGKILL);
  EXPECT_EQ(host.wait(), 1);
  EXPECT_THAT(host.text(), AllOf(HasSubstr("host alpha continues and tries to reconnect"),
                                 HasSubstr("host alpha ends: the head at " + address +
                                           " has not come back within 2 s")));
  head.wait();
  EXPECT_TRUE(processes.none_left());
}

TEST(ByHand, ARunGoesOnWithoutItsHeadAndTheNextOneKnowsIt) {
  RealProcesses processes("head_comes_back");
  auto& first = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = first.word_after("Weft's head listens on ");
  const std::vector<std::string> join = {"join", address, "--name", "alpha"};
  auto& host = processes.start("weft", join);
  host.word_after("has joined cluster");
  processes.write("run.yaml",
                  "name: r\napp: cluster_app\ncluster: {launcher: manual, hosts: [{name: alpha}]}\n"
                  "work: {actors: 1, seconds: 60}\n");
  auto& run = processes.start("weft", {"run", "run.yaml", "--head", address});
  const std::string device = run.word_after("device 0 pid ");
  run.word_after("working");
  ::kill(first.pid, SIGKILL);
  first.wait();
  EXPECT_TRUE(
      eventually([&] { return host.text().find("tries to reconnect") != std::string::npos; }));
  auto& next = processes.start("weft", {"head", "--listen", address, "--state", "state"});
  next.word_after("term 2, at ");
  EXPECT_THAT(next.text(), HasSubstr("1 host and 1 run to reconnect"));
  EXPECT_TRUE(eventually([&] {
    const auto text = processes.run("weft", {"status", "--head", address, "--json"}).text();
    if (!text.starts_with("{")) return false;
    const auto status = nlohmann::json::parse(text);
    return status["meshes"].size() == 1 && status["meshes"][0]["state"] == "running" &&
           status["hosts"].dump().find("pid " + device) != std::string::npos;
  }));
  // Another host with this name is refused while this one is alive.
  auto& other = processes.run("weft", join);
  EXPECT_EQ(other.wait(), 1);
  EXPECT_THAT(other.text(), HasSubstr("a host named 'alpha' has joined already"));
  auto& stop = processes.run("weft", {"stop", "--head", address});
  EXPECT_EQ(stop.wait(), 0) << stop.text();
  // `weft stop` ends the run like `weft cancel`: first its checkpoint, then its exit.
  EXPECT_EQ(run.wait(), 130) << run.text();
}

TEST(ByHand, AHeadWhoseDiskIsFullTellsDeathsTakesHostsBackAndStops) {
  RealProcesses processes("full_disk");
  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  const std::vector<std::string> join = {"join", address, "--name", "alpha"};
  auto& agent = processes.start("weft", join);
  agent.word_after("has joined cluster");
  const rlimit full{1, RLIM_INFINITY};  // every write of the head fails from here on
  ASSERT_EQ(::prlimit(head.pid, RLIMIT_FSIZE, &full, nullptr), 0);
  processes.write("run.yaml",
                  "name: r\napp: cluster_app\ncluster: {launcher: manual, hosts: [{name: alpha}]}\n"
                  "work: {actors: 1, seconds: 60}\n");
  auto& run = processes.start("weft", {"run", "run.yaml", "--head", address});
  run.word_after("working");
  EXPECT_TRUE(eventually([&] {
    return processes.run("weft", {"status", "--head", address})
               .text()
               .find("step 3/10, loss 1.500, 100 tokens/s, 7.0 s left") != std::string::npos;
  }));
  ::kill(agent.pid, SIGKILL);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.text(), HasSubstr("on alpha device 0 (pid "));
  EXPECT_THAT(run.text(), HasSubstr(fmt::format("is lost: its agent (pid {}) died", agent.pid)));
  auto& again = processes.start("weft", join);
  again.word_after("has joined cluster");
  const auto status =
      nlohmann::json::parse(processes.run("weft", {"status", "--head", address, "--json"}).text());
  EXPECT_EQ(status["hosts"][0]["agent_pid"], again.pid);
  EXPECT_THAT(status["events"].dump(), HasSubstr("host alpha was removed from the cluster"));
  auto& stop = processes.run("weft", {"stop", "--head", address});
  EXPECT_EQ(stop.wait(), 0) << stop.text();
  EXPECT_EQ(head.wait(), 0);
  EXPECT_TRUE(processes.none_left());
}

TEST(ByHand, TwoRunsOfOneNameAreDistinguished) {
  RealProcesses processes("two_runs");
  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  processes.start("weft", {"join", address, "--name", "a", "--devices", "2"})
      .word_after("has joined cluster");
  processes.write("run.yaml",
                  "name: r\napp: cluster_app\ncluster: {launcher: manual, hosts: [{name: a, "
                  "devices: 1}]}\nwork: {actors: 1, seconds: 60}\n");
  for (const char* out : {"first", "second"})
    processes.start("weft", {"run", "run.yaml", "--head", address, "--out", out})
        .word_after("working");
  const auto status =
      nlohmann::json::parse(processes.run("weft", {"status", "--head", address, "--json"}).text());
  std::set<std::string> runs, owners;
  for (const auto& run : status["runs"]) runs.insert(run["name"]);
  for (const auto& mesh : status["meshes"]) owners.insert(mesh["owner"]);
  EXPECT_EQ(runs, (std::set<std::string>{"run r", "run r#2"}));
  EXPECT_EQ(owners, runs);
  const std::string text = processes.run("weft", {"status", "--head", address}).text();
  EXPECT_THAT(text, AllOf(ContainsRegex("  run r \\(pid [0-9]+\\): [^\n]*\n    mesh front "),
                          ContainsRegex("  run r#2 \\(pid [0-9]+\\): [^\n]*\n    mesh front ")));
  EXPECT_EQ(processes.run("weft", {"stop", "--head", address}).wait(), 0);
}

TEST(ByHand, RunOnAClusterThatRuns) {
  RealProcesses processes("run_on_head");
  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  for (const char* name : {"a", "b"})
    processes.start("weft", {"join", address, "--name", name}).word_after("has joined cluster");
  processes.write("run.yaml",
                  "name: r\napp: cluster_app\ncluster: {launcher: manual, hosts: [{name: a}, "
                  "{name: b}]}\nwork: {actors: 2}\n");
  auto& refused = processes.run("weft", {"run", "run.yaml"});
  EXPECT_EQ(refused.wait(), 2);
  EXPECT_THAT(refused.text(), HasSubstr("run.yaml:3:21: cluster.launcher: manual means that you "
                                        "start the cluster: give its --head"));
  for (int i = 0; i < 2; ++i) {
    auto& run = processes.run("weft", {"run", "run.yaml", "--head", address});
    EXPECT_EQ(run.wait(), 0) << run.text();
    EXPECT_THAT(run.text(), HasSubstr("total 84"));
  }
  const auto status =
      nlohmann::json::parse(processes.run("weft", {"status", "--head", address, "--json"}).text());
  EXPECT_TRUE(status["meshes"].empty()) << "a run that ended has given its devices back";
  auto& stop = processes.run("weft", {"stop", "--head", address});
  EXPECT_EQ(stop.wait(), 0) << stop.text();
  EXPECT_TRUE(processes.none_left());
}

void expect_hello(const RealProcesses::Process& hello) {
  EXPECT_THAT(hello.text(), HasSubstr("hello one from greeters[row=1,column=0]\n"
                                      "[\"hello all from greeters[row=0,column=0]\", "
                                      "\"hello all from greeters[row=1,column=0]\"]\n"
                                      "[\"hello slice from greeters[row=0,column=0]\"]\n"));
}

TEST(HelloMesh, RunsByItself) {
  RealProcesses processes("hello");
  auto& hello = processes.run("hello_mesh", {});
  EXPECT_EQ(hello.wait(), 0) << hello.text();
  expect_hello(hello);
  EXPECT_TRUE(processes.none_left());
}

TEST(HelloMesh, AHeadThatDiesBeforeItListensIsReportedWithTheReason) {
  RealProcesses processes("hello_no_head");
  std::filesystem::create_directory(processes.directory() / "out");
  processes.write("out/state", "not a folder\n");
  auto& hello = processes.run("hello_mesh", {"--out", "out"});
  EXPECT_EQ(hello.wait(), 1);
  // The head's memory use may follow, if the head lived long enough to be measured.
  EXPECT_THAT(hello.text(), HasSubstr("died: exit status 1"));
  EXPECT_THAT(hello.text(),
              HasSubstr(" before it listened: the head cannot write its state directory "));
  EXPECT_THAT(hello.text(), HasSubstr("give another with --state"));
  EXPECT_TRUE(processes.none_left());
}

TEST(HelloMesh, JoinsACluster) {
  RealProcesses processes("hello_joins");
  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  processes.start("weft", {"join", address, "--name", "a", "--devices", "2"})
      .word_after("has joined cluster");
  auto& hello = processes.run("hello_mesh", {"--head", address});
  EXPECT_EQ(hello.wait(), 0) << hello.text();
  expect_hello(hello);
}

TEST(HelloMesh, AMistypedOptionIsRefusedWithTheNearest) {
  RealProcesses processes("hello_mistyped");
  auto& hello = processes.run("hello_mesh", {"--wrokers", "3"});
  EXPECT_EQ(hello.wait(), 2);
  EXPECT_THAT(hello.text(),
              HasSubstr("unknown option --wrokers; see --help; did you mean 'workers'?"));
}

TEST(HelloMesh, ActorsWithoutDevicesFitOnOneHost) {
  RealProcesses processes("hello_small");
  auto& hello = processes.run("hello_mesh", {"--workers", "1"});
  EXPECT_EQ(hello.wait(), 0) << hello.text();
  expect_hello(hello);
  EXPECT_TRUE(processes.none_left());
}

}  // namespace
}  // namespace weft::test

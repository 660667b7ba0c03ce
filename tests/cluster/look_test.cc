// Tests the view of a running cluster (weft runs, events, logs, why, cancel), and runs without a
// terminal (run --detach).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// Cluster of a head and the hosts a and b, with two devices each.
class Look : public ::testing::Test {
 protected:
  Look() {
    head_ = &processes_.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
    address_ = head_->word_after("Weft's head listens on ");
    for (const char* name : {"a", "b"})
      agents_.push_back(
          &processes_.start("weft", {"join", address_, "--name", name, "--devices", "2"}));
    for (const auto* agent : agents_) agent->word_after("has joined cluster");
  }

  /// Starts a run. `work` is that section of its run file, such as "actors: 2, seconds: 60".
  RealProcesses::Process& start_run(const std::string& name, const std::string& work) {
    processes_.write(name + ".yaml",
                     fmt::format("name: {}\napp: cluster_app\ncluster: {{launcher: manual, hosts: "
                                 "[{{name: a}}, {{name: b}}]}}\nwork: {{{}}}\n",
                                 name, work));
    return processes_.start("weft", {"run", name + ".yaml", "--head", address_});
  }
  RealProcesses::Process& weft(std::vector<std::string> words) {
    words.insert(words.end(), {"--head", address_});
    return processes_.run("weft", words);
  }
  nlohmann::json json(std::vector<std::string> words) {
    words.emplace_back("--json");
    return nlohmann::json::parse(weft(std::move(words)).text());
  }
  nlohmann::json run_named(const std::string& name) {
    for (const auto& run : json({"runs"}))
      if (run["name"] == name) return run;
    return {};
  }

  RealProcesses processes_{"look"};
  RealProcesses::Process* head_ = nullptr;
  std::vector<RealProcesses::Process*> agents_;
  std::string address_;
};

TEST_F(Look, RunsAreKnownWhileTheyRunAndAfterTheirEnd) {
  auto& lives = start_run("lives", "actors: 2, seconds: 60");
  lives.word_after("working");
  auto& done = start_run("done", "actors: 2");
  EXPECT_EQ(done.wait(), 0) << done.text();
  auto& fails = start_run("fails", "actors: 1, fail: no such luck");
  EXPECT_EQ(fails.wait(), 1);
  EXPECT_TRUE(eventually([&] { return run_named("fails")["state"] == "failed"; }));
  EXPECT_THAT(std::string(run_named("fails")["why"]), HasSubstr("no such luck"));
  EXPECT_EQ(run_named("done")["state"], "done");
  EXPECT_GE(run_named("done")["ended_unix_ms"], run_named("done")["began_unix_ms"]);
  EXPECT_TRUE(eventually([&] { return run_named("lives")["progress"]["step"] == 3; }));
  const auto run = run_named("lives");
  EXPECT_EQ(run["state"], "running");
  EXPECT_TRUE(run["ended_unix_ms"].is_null());
  EXPECT_EQ(run["out"], (processes_.directory() / "runs/lives").string());
  ASSERT_EQ(run["devices"].size(), 2u);
  EXPECT_EQ(run["devices"][1]["actor"], "front[x=1]");
  EXPECT_EQ(run["devices"][1]["pid"], std::stoi(lives.word_after("device 1 pid ")));
  const std::string text = weft({"runs"}).text();
  EXPECT_THAT(text, AllOf(ContainsRegex("lives  running      3/10   1.500  "),
                          ContainsRegex("done   done  "),
                          ContainsRegex("fails  failed  [^\n]*\n  [^\n]*no such luck")));
}

TEST_F(Look, AHostThatLeavesEndsWhatIsInUseWhenItsGraceIsOver) {
  auto& host = processes_.start("weft", {"join", address_, "--name", "c", "--grace", "1"});
  host.word_after("has joined cluster");
  processes_.write("run.yaml",
                   "name: r\napp: cluster_app\ncluster: {launcher: manual, hosts: [{name: c}]}\n"
                   "work: {actors: 1, seconds: 600, keeps: true}\n");
  auto& run = processes_.start("weft", {"run", "run.yaml", "--head", address_});
  run.word_after("working");
  ::kill(host.pid, SIGTERM);
  EXPECT_EQ(host.wait(), 0) << host.text();
  EXPECT_THAT(host.text(), AllOf(HasSubstr("waiting up to 1 s for 1 device process in use"),
                                 HasSubstr("host c ends 1 process that is still in use after 1 s "
                                           "(--grace)")));
  EXPECT_EQ(run.wait(), 1) << run.text();
  EXPECT_THAT(run.text(), HasSubstr("stopped by SIGTERM"));
}

TEST_F(Look, ADeathIsOneLineAndItsLogHasACommandOfItsOwn) {
  auto& dies = start_run("dies", "actors: 1, seconds: 60");
  const int pid = std::stoi(dies.word_after("device 0 pid "));
  ::kill(pid, SIGKILL);
  EXPECT_EQ(dies.wait(), 1);
  EXPECT_TRUE(eventually(
      [&] { return weft({"events"}).text().find("died: SIGKILL") != std::string::npos; }));
  for (const char* command : {"events", "status"}) {
    const std::string text = weft({command}).text();
    EXPECT_THAT(text, HasSubstr(fmt::format("device 0 (front[x=0], pid {}) died: SIGKILL", pid)));
    EXPECT_THAT(text, HasSubstr("weft logs dies 'front[x=0]'"));
    EXPECT_THAT(text, Not(HasSubstr("  | "))) << "no line of its log";
  }
  EXPECT_THAT(weft({"logs", "dies", "front[x=0]"}).text(), HasSubstr("ready (pid"));
  EXPECT_THAT(weft({"logs", "dies", "driver"}).text(), HasSubstr("writes to the terminal"));
}

TEST_F(Look, TheNextHeadKnowsTheRunsOfTheOneBefore) {
  auto& lives = start_run("lives", "actors: 1, seconds: 60");
  lives.word_after("working");
  EXPECT_EQ(start_run("done", "actors: 1").wait(), 0);
  ::kill(head_->pid, SIGKILL);
  head_->wait();
  processes_.start("weft", {"head", "--listen", address_, "--state", "state"})
      .word_after("term 2, at ");
  EXPECT_EQ(run_named("done")["state"], "done");
  EXPECT_TRUE(eventually([&] { return run_named("lives")["state"] == "running"; }));
}

TEST_F(Look, CancelEndsARunAsCtrlCDoes) {
  auto& run = start_run("train", "actors: 2, seconds: 60");
  run.word_after("working");
  auto& unknown = weft({"cancel", "tarin"});
  EXPECT_EQ(unknown.wait(), 1);
  EXPECT_THAT(unknown.text(), HasSubstr("this cluster has no run 'tarin'; did you mean 'train'?"));
  EXPECT_EQ(json({"cancel", "train"})["run"], "train");
  EXPECT_EQ(run.wait(), 130) << run.text();
  EXPECT_THAT(run.text(), AllOf(HasSubstr("weft cancel: it stops after its current work"),
                                HasSubstr("run 'train' was interrupted")));
  EXPECT_TRUE(eventually([&] { return run_named("train")["state"] == "interrupted"; }));
  auto& again = weft({"cancel", "train"});
  EXPECT_EQ(again.wait(), 1);
  EXPECT_THAT(again.text(), HasSubstr("has ended: interrupted"));
}

TEST_F(Look, CancelNowEndsARunWhoseDeviceHangs) {
  auto& run = start_run("r", "actors: 2, seconds: 600, computes: true");
  run.word_after("working");
  EXPECT_THAT(weft({"cancel", "run r", "--now"}).text(), HasSubstr("it stops immediately"));
  EXPECT_EQ(run.wait(), 130) << run.text();
  EXPECT_TRUE(eventually([&] { return run_named("r")["state"] == "interrupted"; }));
  EXPECT_TRUE(eventually([&] { return json({"status"})["meshes"].empty(); }));
}

TEST_F(Look, CancelSaysWhereADriverIsThatDoesNotAnswer) {
  auto& run = start_run("r", "actors: 1, seconds: 60");
  run.word_after("working");
  const pid_t driver = run_named("r")["pid"];
  ::kill(driver, SIGSTOP);
  auto& cancel = weft({"cancel", "r"});
  EXPECT_EQ(cancel.wait(), 1);
  EXPECT_THAT(cancel.text(), AllOf(HasSubstr("does not answer the head"),
                                   HasSubstr(fmt::format("kill -KILL {} ends it", driver))));
  ::kill(driver, SIGKILL);
  run.wait();
  EXPECT_TRUE(eventually([&] { return run_named("r")["state"] == "lost"; }));
}

TEST_F(Look, EventsGoOnAcrossHeads) {
  auto& follows =
      processes_.start("weft", {"events", "--head", address_, "--json", "--follow", "--last", "1"});
  EXPECT_THAT(nlohmann::json::parse("{" + follows.word_after("{"))["text"].dump(),
              HasSubstr("joined"));
  EXPECT_EQ(start_run("r", "actors: 1").wait(), 0);
  follows.word_after("ends: done");
  ::kill(head_->pid, SIGKILL);
  head_->wait();
  processes_.start("weft", {"head", "--listen", address_, "--state", "state"})
      .word_after("term 2, at ");
  follows.word_after("term 2, at ");
  std::size_t lines = 0;
  const std::string text = follows.text();
  for (std::size_t at = 0; (at = text.find("run r (driver pid", at)) != std::string::npos; ++at)
    ++lines;
  EXPECT_EQ(lines, 3u) << "it is here, it ends, it is gone: " << text;
  EXPECT_THAT(
      weft({"events", "-n", "2000"}).text(),
      AllOf(ContainsRegex("[0-9]-[0-9]+ [0-9:]+  host a joined"), HasSubstr("term 2, at ")));
}

/// Returns the waiter `name` in the output of `weft why --json`.
nlohmann::json waiter_of(const nlohmann::json& why, const std::string& name) {
  for (const auto& waiter : why["waiters"])
    if (waiter["name"] == name) return waiter;
  return {};
}

TEST_F(Look, IoThreadsAnswerWhyWhenHandlersHang) {
  // Calls made just before may still be running.
  EXPECT_TRUE(
      eventually([&] { return weft({"why"}).text().find("no actor waits") != std::string::npos; }));
  auto& run = start_run("train", "actors: 2, seconds: 600, computes: true");
  run.word_after("working");
  const auto why = json({"why", "train"});
  EXPECT_EQ(why["runs"], nlohmann::json::array({"train"}));
  const auto driver = waiter_of(why, "driver of train");
  ASSERT_EQ(driver["waits"].size(), 2u);
  EXPECT_EQ(driver["waits"][1]["on"], "front[x=1]");
  EXPECT_EQ(driver["waits"][1]["what"], "'compute'");
  EXPECT_TRUE(driver["waits"][1]["seconds_left"].is_null());
  const auto device = waiter_of(why, "front[x=1]");
  EXPECT_EQ(device["handlers"][0]["method"], "compute");
  EXPECT_EQ(device["handlers"][0]["holds_thread"], true);
  EXPECT_EQ(why["cycles"].size(), 0u);
  EXPECT_THAT(
      weft({"why"}).text(),
      AllOf(ContainsRegex("driver of train \\(pid [0-9]+ on [^\n]*\n  front\\[x=0\\] \\(a "
                          "device 0, pid [0-9]+\\): 'compute' for [^\n]*, no deadline\n"),
            HasSubstr("no deadlock: all waits end at front[x=0], front[x=1], which do not wait")));
  EXPECT_THAT(weft({"why", "front[1]"}).text(),
              AllOf(HasSubstr("is waited for by driver of train: 'compute'"),
                    Not(HasSubstr("front[x=0]"))));
  auto& unknown = weft({"why", "fornt[x=1]"});
  EXPECT_EQ(unknown.wait(), 1);
  EXPECT_THAT(unknown.text(), HasSubstr("did you mean 'front[x=1]'?"));
}

TEST_F(Look, WhyMarksACycleOfCalls) {
  auto& run = start_run("train", "actors: 2, seconds: 600, circle: true");
  run.word_after("working");
  nlohmann::json why;
  EXPECT_TRUE(eventually([&] {
    why = json({"why", "train"});
    return why["cycles"].size() == 1;
  }));
  EXPECT_EQ(why["cycles"], nlohmann::json::parse(R"([["front[x=0]", "front[x=1]"]])"));
  EXPECT_EQ(waiter_of(why, "front[x=0]")["queued"], 1);
  EXPECT_THAT(
      weft({"why"}).text(),
      AllOf(HasSubstr("<- CYCLE"), HasSubstr("cycle: front[x=0] -> front[x=1] -> front[x=0]")));
}

TEST_F(Look, WhyNamesStoppedProcessesAndAsksAroundAStoppedAgent) {
  auto& run = start_run("train", "actors: 3, seconds: 600");
  run.word_after("working");
  const pid_t device = std::stoi(run.word_after("device 1 pid "));
  ::kill(device, SIGSTOP);
  EXPECT_THAT(
      weft({"why", "train"}).text(),
      ContainsRegex("front\\[x=1\\] [^\n]*\n    does not answer within [^\n]* it is stopped "
                    "\\(state T\\)\n"));
  ::kill(device, SIGCONT);
  ::kill(agents_[0]->pid, SIGSTOP);
  const auto why = json({"why"});
  EXPECT_THAT(std::string(waiter_of(why, "agent of a")["problem"]), HasSubstr("(state T)"));
  EXPECT_EQ(waiter_of(why, "front[x=0]")["answers"], true) << "its driver has asked it: " << why;
  ::kill(agents_[0]->pid, SIGCONT);
}

TEST_F(Look, WhySaysWhichTransferDevicesWaitFor) {
  processes_.write("train.yaml", R"(name: train
app: training_app
seed: 7
cluster: {launcher: manual, hosts: [{name: a}, {name: b}]}
meshes:
  front: {hosts: [a], shape: {data: 1, tensor: 1}}
  back: {hosts: [b], shape: {data: 1, tensor: 1}}
sharding: {batch: data, heads: tensor, mlp: tensor}
pipeline:
  stages: [{mesh: front, layers: 2}, {mesh: back, layers: 1}]
  schedule: 1f1b
  microbatches: 4
training: {steps: 20, stuck_from: 1, stuck_for: 600s}
)");
  processes_.start("weft", {"run", "train.yaml", "--head", address_}).word_after("step 0");
  std::string text;
  EXPECT_TRUE(eventually([&] {
    text = weft({"why", "train"}).text();
    return text.find("waits for '") != std::string::npos;
  }));
  EXPECT_THAT(text, AllOf(ContainsRegex("back\\[data=0,tensor=0\\] [^\n]*\n    busy with 'run' for "
                                        "[^\n]*\n    in stage 1, backward of microbatch 0 \\(next: "
                                        "forward of microbatch 1\\): inside read 'targets'"),
                          ContainsRegex("waits for '[^']* back->front' of microbatch 0 for [^\n]* "
                                        "which back\\[data=0,tensor=0\\] has not begun")));
}

TEST_F(Look, LogsLieOnTheirHostsAndAreReadFromThereAlsoAfterTheEnd) {
  auto& run = start_run("train", "actors: 2, seconds: 600");
  run.word_after("working");
  const std::string both = weft({"logs", "train"}).text();
  EXPECT_THAT(both, AllOf(ContainsRegex("front\\[x=0\\] \\| [^\n]*front\\[x=0\\]: ready"),
                          ContainsRegex("front\\[x=1\\] \\| [^\n]*front\\[x=1\\]: ready")));
  EXPECT_THAT(
      weft({"logs", "train", "front[0]"}).text(),
      AllOf(HasSubstr("front[x=0]: ready"), Not(HasSubstr("|")), Not(HasSubstr("front[x=1]"))));
  auto& unknown = weft({"logs", "train", "frnt[x=1]"});
  EXPECT_EQ(unknown.wait(), 1);
  EXPECT_THAT(unknown.text(),
              HasSubstr("run 'train' has no device 'frnt[x=1]'; did you mean 'front[x=1]'?"));
  auto& follows = processes_.start(
      "weft", {"logs", "train", "front", "-f", "--json", "--head", address_, "-n", "1"});
  follows.word_after("ready");
  weft({"cancel", "train"});
  EXPECT_EQ(follows.wait(), 0) << "it ends with the run: " << follows.text();
  EXPECT_THAT(follows.text(), HasSubstr("exits: its run has released it"));
  EXPECT_EQ(nlohmann::json::parse("{" + follows.word_after("{"))["host"], "a");
  EXPECT_THAT(weft({"logs", "train", "front[x=1]"}).text(),
              HasSubstr("exits: its run has released it"));
}

TEST_F(Look, ALogOfADisconnectedHostIsReportedAsUnavailable) {
  auto& run = start_run("train", "actors: 1, seconds: 600");
  run.word_after("working");
  ::kill(agents_[0]->pid, SIGKILL);
  run.wait();
  auto& logs = weft({"logs", "train"});
  EXPECT_EQ(logs.wait(), 1);
  EXPECT_THAT(logs.text(),
              HasSubstr("the log of front[x=0] on host a cannot be read: host a is not in this "
                        "cluster; it has left or never joined"));
}

/// Fixture for `weft run --detach` with a run file in a folder below the test's.
class Detach : public Look {
 protected:
  Detach() {
    std::filesystem::create_directories(processes_.directory() / "files");
    std::filesystem::create_symlink(RealProcesses::program("cluster_app"),
                                    processes_.directory() / "files/my_app");
  }
  /// Starts a detached run. Paths in its file start at the file's folder, those of --set and --out
  /// at the test's.
  RealProcesses::Process& detach(const std::string& work, std::vector<std::string> more = {}) {
    processes_.write("files/train.yaml",
                     fmt::format("name: train\napp: ./my_app\ncluster: {{launcher: manual, hosts: "
                                 "[{{name: b}}, {{name: a}}]}}\nwork: {{{}}}\n",
                                 work));
    std::vector<std::string> words = {"run", "files/train.yaml", "--detach", "--out", "results"};
    words.insert(words.end(), more.begin(), more.end());
    return weft(words);
  }
};

bool has_ended(pid_t pid) {
  const auto stat = actors::read_proc_stat(pid);
  return !stat || stat->exiting;
}

TEST_F(Detach, ARunIsLeftToTheClusterAndOutlivesHeadsAndTerminals) {
  auto& detached = detach("actors: 2, seconds: 600", {"--set", "work.actors=3"});
  EXPECT_EQ(detached.wait(), 0) << detached.text();
  EXPECT_THAT(detached.text(),
              AllOf(HasSubstr("run 'train' is detached: host b has started it (pid "),
                    HasSubstr((processes_.directory() / "results").string()),
                    HasSubstr("weft logs train -f"), HasSubstr("weft cancel train")));
  auto run = run_named("train");
  EXPECT_EQ(run["state"], "running");
  EXPECT_EQ(run["started_by_host"], "b");
  EXPECT_EQ(run["out"], (processes_.directory() / "results").string());
  EXPECT_TRUE(eventually([&] { return run_named("train")["devices"].size() == 3; }));
  EXPECT_TRUE(eventually([&] {
    return weft({"logs", "train", "driver"}).text().find("working") != std::string::npos;
  }));
  ::kill(head_->pid, SIGKILL);
  head_->wait();
  processes_.start("weft", {"head", "--listen", address_, "--state", "state"})
      .word_after("term 2, at ");
  EXPECT_TRUE(eventually([&] { return run_named("train")["state"] == "running"; }));
  weft({"cancel", "train"});
  EXPECT_TRUE(eventually([&] { return run_named("train")["state"] == "interrupted"; }));
  EXPECT_THAT(weft({"logs", "train", "driver"}).text(), HasSubstr("run 'train' was interrupted"));
  EXPECT_TRUE(std::filesystem::exists(processes_.directory() / "results/events.jsonl"));
  // A second run of the same name.
  auto& again = detach("actors: 1");
  EXPECT_EQ(again.wait(), 0) << again.text();
  EXPECT_TRUE(eventually([&] { return json({"runs"}).back()["state"] == "done"; }));
  EXPECT_EQ(json({"runs"}).size(), 2u);
}

TEST_F(Detach, AFailedStartIsReportedAtOnceAndLaterFailuresAreKept) {
  auto& wrong = detach("actors: 0");
  EXPECT_EQ(wrong.wait(), 2);
  EXPECT_THAT(wrong.text(), HasSubstr("train.yaml:4:16"));
  EXPECT_TRUE(json({"runs"}).empty()) << "the app's check comes before anything is sent";
  // The run's output folder on that host cannot be created.
  processes_.write("results", "a file\n");
  auto& refused = detach("actors: 1");
  EXPECT_EQ(refused.wait(), 1);
  EXPECT_THAT(refused.text(),
              AllOf(HasSubstr("run 'train' has failed on host b"), HasSubstr("results")));
  EXPECT_EQ(run_named("train")["state"], "failed");
  auto& nowhere = weft({"run", "files/train.yaml", "--detach", "--set", "cluster.hosts.0.name=c"});
  EXPECT_EQ(nowhere.wait(), 1);
  EXPECT_THAT(nowhere.text(), HasSubstr("run 'train' was not started: host c has not joined this "
                                        "cluster; hosts that answer: a, b"));
  auto& headless = processes_.run("weft", {"run", "files/train.yaml", "--detach"});
  EXPECT_EQ(headless.wait(), 2);
}

TEST_F(Detach, TheDeathOfAnAgentEndsItsDriverAndIsReported) {
  EXPECT_EQ(detach("actors: 1, seconds: 600").wait(), 0);
  const pid_t driver = run_named("train")["pid"];
  ::kill(agents_[1]->pid, SIGKILL);
  EXPECT_TRUE(eventually([&] { return run_named("train")["state"] == "lost"; }));
  EXPECT_TRUE(eventually([&] {
    return std::string(run_named("train")["why"])
               .find("the run ended because host b, which had started it, was removed") == 0;
  }));
  EXPECT_TRUE(eventually([&] { return has_ended(driver); }));
}

TEST_F(Detach, AHostThatLeavesEndsItsRunsAsCtrlCDoes) {
  EXPECT_EQ(detach("actors: 1, seconds: 600").wait(), 0);
  EXPECT_TRUE(eventually([&] { return run_named("train")["progress"]["step"] == 3; }));
  const pid_t driver = run_named("train")["pid"];
  ::kill(agents_[1]->pid, SIGTERM);
  EXPECT_EQ(agents_[1]->wait(), 0) << agents_[1]->text();
  EXPECT_TRUE(eventually([&] { return run_named("train")["state"] == "interrupted"; }))
      << run_named("train").dump();
  EXPECT_TRUE(has_ended(driver));
}

TEST_F(Detach, ADriverThatHangsIsEndedThroughItsAgent) {
  EXPECT_EQ(detach("actors: 1, seconds: 600").wait(), 0);
  const pid_t driver = run_named("train")["pid"];
  ::kill(driver, SIGSTOP);
  EXPECT_THAT(weft({"cancel", "train", "--now"}).text(),
              HasSubstr("host b sent SIGKILL to the run"));
  EXPECT_TRUE(eventually([&] { return run_named("train")["state"] == "interrupted"; }));
  EXPECT_TRUE(eventually([&] { return has_ended(driver); }));
}

}  // namespace
}  // namespace weft::test

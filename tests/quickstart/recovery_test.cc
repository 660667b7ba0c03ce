// Tests recovery from process deaths with the shipped run file on real processes. Losses must equal
// those of an undisturbed run, bit for bit, and each step must be there once.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/run_files/checkpoint.h"
#include "apps/run_files/metrics.h"
#include "tests/quickstart/run_files.h"

namespace weft::test {
namespace {
namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kSteps = 40;

class Recovery : public ::testing::Test {
 protected:
  Recovery() : processes_("recovery") { write_run_files(processes_); }

  static std::vector<std::string> run_into(const std::string& out,
                                           const std::vector<std::string>& settings = {}) {
    std::vector<std::string> arguments = {"run", "cluster.yaml", "--out", out};
    std::vector<std::string> all = {"model={layers: 4, width: 32, heads: 4, sequence: 16}",
                                    "data={text: text.txt, tokenizer: bytes, cache: cache}",
                                    fmt::format("training.steps={}", kSteps),
                                    "training.warmup_steps=2",
                                    "training.validate_every=7",
                                    "checkpoint.every=13",
                                    "recovery.copy_every=4",
                                    "sample.tokens=1"};
    all.insert(all.end(), settings.begin(), settings.end());
    for (const std::string& setting : all) arguments.insert(arguments.end(), {"--set", setting});
    return arguments;
  }
  fs::path path(const std::string& name) const { return processes_.directory() / name; }
  /// Returns the metrics of each step, as text, that a death must not change.
  std::vector<std::string> steps(const std::string& out) const {
    std::vector<std::string> result;
    for (const apps::StepMetrics& m : apps::read_metrics(path(out) / "metrics.jsonl"))
      result.push_back(
          fmt::format("{}: {} {} {}", m.step, m.loss, m.grad_norm, m.validation_loss.value_or(0)));
    return result;
  }
  /// Returns the steps of an undisturbed run, which runs once for all tests.
  const std::vector<std::string>& undisturbed() {
    static std::vector<std::string> undisturbed_;
    if (undisturbed_.empty()) {
      auto& run = processes_.run("weft", run_into("undisturbed"));
      EXPECT_EQ(run.wait(), 0) << run.text();
      undisturbed_ = steps("undisturbed");
      EXPECT_EQ(undisturbed_.size(), kSteps);
    }
    return undisturbed_;
  }
  /// Returns this test's processes whose command line contains `part`.
  std::vector<pid_t> processes_with(const std::string& part) const {
    std::vector<pid_t> found;
    for (const pid_t pid : processes_.left()) {
      std::string command = read_file(fmt::format("/proc/{}/cmdline", pid));
      std::ranges::replace(command, '\0', ' ');
      if (command.find(part) != std::string::npos) found.push_back(pid);
    }
    return found;
  }
  pid_t process_with(const std::string& part) const {
    const auto found = processes_with(part);
    EXPECT_FALSE(found.empty()) << part;
    return found.empty() ? 0 : found.front();
  }
  bool has_steps(const std::string& out, std::size_t steps) const {
    return eventually([&] {
      const std::string text = read_file(path(out) / "metrics.jsonl");
      return static_cast<std::size_t>(std::ranges::count(text, '\n')) >= steps;
    });
  }
  bool has_checkpoint(const std::string& out) const {
    try {
      (void)apps::find_checkpoint(path(out));
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  std::vector<std::string> events(const std::string& out, const std::string& kind) const {
    std::vector<std::string> causes;
    std::istringstream text(read_file(path(out) / "events.jsonl"));
    for (std::string line; std::getline(text, line);)
      if (const auto event = nlohmann::json::parse(line); event["kind"] == kind)
        causes.push_back(event["cause"]);
    return causes;
  }
  void expect_undisturbed(RealProcesses::Process& run, const std::string& out) {
    EXPECT_EQ(run.wait(), 0) << run.text();
    EXPECT_EQ(steps(out), undisturbed());
  }

  RealProcesses processes_;
};

TEST_F(Recovery, ADeviceThatDiesIsReplacedAndTheStateComesFromTheMemoryOfOthers) {
  // No checkpoints: state can only be restored from another host's memory.
  auto& run = processes_.start("weft", run_into("out", {"checkpoint.every=0"}));
  ASSERT_TRUE(has_steps("out", 11)) << run.text();
  const pid_t victim = process_with("--label front[data=0,tensor=1]");
  const auto others = processes_with("--label back");
  ::kill(victim, SIGKILL);
  ASSERT_TRUE(eventually([&] { return !events("out", "recovered").empty(); })) << run.text();
  for (const pid_t other : others) EXPECT_EQ(::kill(other, 0), 0) << "those that live go on";
  expect_undisturbed(run, "out");
  EXPECT_THAT(run.text(), ContainsRegex("worker0 device 1 died: SIGKILL.*; back at step (8|12|16|20"
                                        "|24|28|32|36) on worker0 after .* steps? repeated\\), "
                                        "restart 1 of 3"));
  EXPECT_EQ(nlohmann::json::parse(read_file(path("out") / "summary.json"))["recoveries"], 1);
  EXPECT_EQ(events("out", "incident").size(), 1u);
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Recovery, ADeviceThatDiesAmidInterleavedActionsIsReplacedAndTheBitsStay) {
  const std::vector<std::string> halves = {
      "cluster.hosts=[{name: worker0, devices: 2, link: 100mbit}, "
      "{name: worker1, devices: 2, link: 100mbit}]",
      "meshes={front: {hosts: [worker0, worker1], shape: {data: 1, tensor: 4}}}",
      "pipeline.stages=[{mesh: front, layers: 4}]", "pipeline.schedule=1f1b",
      "pipeline.duplex=halves"};
  auto plan = run_into("planned", halves);
  plan.front() = "plan";
  plan.erase(plan.begin() + 2, plan.begin() + 4);  // --out
  plan.emplace_back("--programs");
  auto& planned = processes_.run("weft", plan);
  EXPECT_EQ(planned.wait(), 0) << planned.text();
  EXPECT_THAT(planned.text(), HasSubstr("0F0, resumed:"));
  auto& calm = processes_.run("weft", run_into("calm", halves));
  ASSERT_EQ(calm.wait(), 0) << calm.text();
  auto& run = processes_.start("weft", run_into("out", halves));
  ASSERT_TRUE(has_steps("out", 11)) << run.text();
  ::kill(process_with("--label front[data=0,tensor=2]"), SIGKILL);
  EXPECT_EQ(run.wait(), 0) << run.text();
  EXPECT_EQ(events("out", "recovered").size(), 1u);
  EXPECT_EQ(steps("out"), steps("calm"));
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Recovery, AnAgentAndADeviceOfAnotherHostAtATimeGoBackToTheCheckpoint) {
  auto& run = processes_.start("weft", run_into("out"));
  ASSERT_TRUE(has_steps("out", 20)) << run.text();
  const pid_t agent = process_with("--name worker1"), device = process_with("--label front");
  ::kill(agent, SIGKILL);
  ::kill(device, SIGKILL);
  expect_undisturbed(run, "out");
  EXPECT_THAT(run.text(),
              AllOf(HasSubstr(fmt::format("the agent of worker1 (pid {}) died: SIGKILL", agent)),
                    ContainsRegex("started again, restart (1|2) of 3"),
                    HasSubstr("; back at step 13 on worker0, worker1 after ")));
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Recovery, ADriverThatDiesIsStartedAgainAndItsDevicesGoOnAsTheyAre) {
  // There are no checkpoints, and a device dies too.
  auto& run = processes_.start("weft", run_into("out", {"checkpoint.every=0"}));
  ASSERT_TRUE(has_steps("out", 15)) << run.text();
  const pid_t driver = process_with("--weft-role=driver");
  const auto others = processes_with("--label front");
  ::kill(process_with("--label back[data=1"), SIGKILL);
  ::kill(driver, SIGKILL);
  ASSERT_TRUE(eventually([&] { return !events("out", "recovered").empty(); })) << run.text();
  for (const pid_t other : others) EXPECT_EQ(::kill(other, 0), 0) << "those that live go on";
  expect_undisturbed(run, "out");
  EXPECT_THAT(
      run.text(),
      AllOf(HasSubstr(fmt::format("its driver gpt (pid {}) died: SIGKILL", driver)),
            // The driver may have counted its device's death before its own death.
            ContainsRegex("started again, restart [12] of 3"),
            ContainsRegex("the restarted driver resumes at step (8|12|16|20|24|28|32|36) from "
                          "the memory of the devices \\(.* steps? repeated\\)")));
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Recovery, ADriverThatCrashesSaysInWhichFunctions) {
  auto& run = processes_.start("weft", run_into("out"));
  ASSERT_TRUE(has_steps("out", 3)) << run.text();
  ::kill(process_with("--weft-role=driver"), SIGSEGV);
  expect_undisturbed(run, "out");
  // The signal comes anywhere, and the innermost functions are printed.
  EXPECT_THAT(run.text(),
              AllOf(HasSubstr("crash: SIGSEGV\n"),
                    ContainsRegex("(  #[0-9]+ [^\n]* \\([a-z_]+\\.(cc|h):[0-9]+\\)\n){3}"),
                    Not(HasSubstr("= backtrace"))));
}

TEST_F(Recovery, ADriverThatDiesWithAllDevicesGoesOnFromItsCheckpoint) {
  auto& run = processes_.start("weft", run_into("out"));
  ASSERT_TRUE(eventually([&] { return has_checkpoint("out"); })) << run.text();
  for (const std::string part : {"--label front", "--label back", "--weft-role=driver"})
    for (const pid_t victim : processes_with(part)) ::kill(victim, SIGKILL);
  expect_undisturbed(run, "out");
  EXPECT_THAT(run.text(), AllOf(ContainsRegex("started again, restart (1|2) of 3"),
                                ContainsRegex("after step (13|26)")))
      << "the driver may have counted the devices' death";
  EXPECT_FALSE(fs::exists(path("out/abandoned.1")));
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Recovery, EditsDuringARunApplyToTheNextRun) {
  auto& csv = processes_.run(
      "weft", {"schedule", "show", "eager-1f1b", "--stages", "2", "--microbatches", "8", "--csv"});
  ASSERT_EQ(csv.wait(), 0) << csv.text();
  processes_.write("mine.csv", csv.text());
  (void)undisturbed();
  fs::permissions(path("cluster.yaml"), fs::perms::owner_read | fs::perms::owner_write);
  auto& run = processes_.start("weft", run_into("out", {"pipeline.schedule=mine.csv"}));
  ASSERT_TRUE(has_steps("out", 15)) << run.text();
  EXPECT_EQ(fs::status(path("out/run.yaml")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  std::string edited = read_file(path("cluster.yaml"));
  edited.replace(edited.find("learning_rate: 3e-3"), 19, "learning_rate: 1e-3");
  processes_.write("cluster.yaml", edited + "nonsense: [\n");
  processes_.write("mine.csv", "nonsense\n");
  processes_.write("text.txt", read_file(path("text.txt")) + "and one more line\n");
  for (const std::string part : {"--label front", "--label back", "--weft-role=driver"})
    for (const pid_t victim : processes_with(part)) ::kill(victim, SIGKILL);
  expect_undisturbed(run, "out");
  EXPECT_THAT(run.text(), AllOf(HasSubstr("cluster.yaml was edited; this run continues with the "
                                          "version it read, saved in "),
                                HasSubstr("mine.csv was edited; ")));
  EXPECT_THAT(events("out", "input edited"), ::testing::SizeIs(2)) << "each is told once";
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Recovery, ProgramsAreThoseThatTheRunWasStartedWith) {
  (void)undisturbed();
  const fs::path built = RealProcesses::program("weft").parent_path();
  const fs::path bin = path("built/bin"), lib = path("built/lib");
  fs::create_directories(bin);
  fs::create_directories(lib);
  for (const char* name : {"weft", "gpt"}) fs::copy_file(built / name, bin / name);
  fs::copy(built.parent_path() / "lib", lib, fs::copy_options::overwrite_existing);
  auto& run = processes_.start((bin / "weft").string(), run_into("out", {"recovery.restarts=9"}));
  ASSERT_TRUE(has_steps("out", 15)) << run.text();
  // Leaves the programs as a failed build does.
  fs::remove(bin / "gpt");
  processes_.write("built/bin/gpt", "nonsense");
  fs::remove(bin / "weft");
  fs::remove_all(lib);
  ::kill(process_with("--label back"), SIGKILL);
  ASSERT_TRUE(eventually([&] { return events("out", "recovered").size() == 1; })) << run.text();
  ::kill(process_with("--weft-role=driver"), SIGKILL);
  ::kill(process_with("--name worker1"), SIGKILL);
  ::kill(process_with("--weft-role=head"), SIGKILL);
  expect_undisturbed(run, "out");
  EXPECT_THAT(run.text(), AllOf(HasSubstr("its driver gpt (pid "),
                                HasSubstr("the agent of worker1"), HasSubstr("the head (pid ")));
  EXPECT_FALSE(fs::exists(path("out/logs/programs"))) << "they go with the run";
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Recovery, ADeathBeforeTheFirstCopyBeginsAnew) {
  auto& run = processes_.start("weft", run_into("out"));
  ASSERT_TRUE(has_steps("out", 1)) << run.text();
  ::kill(process_with("--label back"), SIGKILL);
  expect_undisturbed(run, "out");
}

TEST_F(Recovery, TooManyDeathsEndTheRunWithEveryCause) {
  auto& run = processes_.start(
      "weft", run_into("out", {"training.steps=1000000", "recovery={restarts: 2, within: 1h}"}));
  for (int death = 0; death < 3; ++death) {
    ASSERT_TRUE(has_steps("out", 1)) << run.text();
    ::kill(process_with("--label front[data=0,tensor=0]"), SIGKILL);
    if (death == 2) break;
    ASSERT_TRUE(eventually([&] {
      return events("out", "recovered").size() == static_cast<std::size_t>(death + 1);
    })) << run.text();
  }
  EXPECT_EQ(run.wait(), 1);
  const std::string text = run.text();
  const auto at = text.find("The limit of restarts is reached (recovery.restarts: 2 within");
  ASSERT_NE(at, std::string::npos) << text;
  const std::string causes = text.substr(at);
  EXPECT_GE(std::ranges::count(causes, '\n'), 3) << causes;
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Recovery, ByHandASpareTakesThePlaceOfAHostAndWithoutOneTheRunWaits) {
  auto& head = processes_.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  std::vector<RealProcesses::Process*> hosts;
  const auto join = [&](const std::string& name) {
    auto& host = processes_.start("weft", {"join", address, "--name", name, "--devices", "2"});
    host.word_after("has joined cluster");
    hosts.push_back(&host);
  };
  for (const char* name : {"worker0", "worker1", "worker2"}) join(name);
  auto arguments = run_into(
      "out", {"cluster={launcher: manual, hosts: [{name: worker0, devices: 2}, {name: worker1, "
              "devices: 2}, {name: worker2, devices: 2}]}",
              "recovery={spares: [worker2], copy_every: 4}", "checkpoint.every=0"});
  arguments.insert(arguments.end(), {"--head", address});
  auto& run = processes_.start("weft", arguments);
  ASSERT_TRUE(has_steps("out", 10)) << run.text();
  ::kill(hosts[1]->pid, SIGKILL);
  ASSERT_TRUE(eventually([&] { return events("out", "recovered").size() == 1; })) << run.text();
  EXPECT_THAT(events("out", "recovered")[0],
              AllOf(HasSubstr("worker1: its agent"), HasSubstr(" on worker2 after")));
  ::kill(hosts[0]->pid, SIGKILL);
  // The run has no host left until an operator starts one.
  EXPECT_TRUE(
      eventually([&] { return run.text().find("waiting for devices: ") != std::string::npos; }));
  join("worker0");
  expect_undisturbed(run, "out");
  EXPECT_EQ(events("out", "recovered").size(), 2u);
  EXPECT_EQ(processes_.run("weft", {"stop", "--head", address}).wait(), 0);
  EXPECT_TRUE(processes_.none_left());
}

// As a daemon or an operator sends them.
TEST_F(Recovery, ASignalToADeviceOrItsAgentIsSurvivedAsSigkillIs) {
  // Each process first waits a while for its parent, which stays alive. Then it dies.
  auto& run = processes_.start("weft", run_into("out", {"training.steps=1000000"}));
  ASSERT_TRUE(has_steps("out", 5)) << run.text();
  ::kill(process_with("--label back[data=0"), SIGHUP);
  ASSERT_TRUE(eventually([&] { return !events("out", "recovered").empty(); })) << run.text();
  const pid_t agent = process_with("--name worker0");
  ::kill(agent, SIGTERM);
  ASSERT_TRUE(eventually([&] { return events("out", "recovered").size() >= 2; })) << run.text();
  EXPECT_THAT(run.text(), HasSubstr(fmt::format("the agent of worker0 (pid {}) died: SIG", agent)));
  EXPECT_THAT(run.text(), HasSubstr("started again, restart 2 of 3"));
  ::kill(run.pid, SIGINT);
  EXPECT_EQ(run.wait(), 130) << run.text();
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Recovery, TheSecondCrashWithOneMessageAndNoStepBetweenEndsTheRun) {
  // A step takes seconds, so that none is finished between the crashes.
  auto& run = processes_.start(
      "weft", run_into("out", {"training.batch=8192", "training.validate_every=1000",
                               "recovery={restarts: 100, within: 1h}"}));
  ASSERT_TRUE(has_steps("out", 1)) << run.text();
  ::kill(process_with("--label front[data=0,tensor=0]"), SIGABRT);
  ASSERT_TRUE(eventually([&] { return events("out", "recovered").size() == 1; })) << run.text();
  ::kill(process_with("--label front[data=0,tensor=0]"), SIGABRT);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.text(), HasSubstr("The same failure happened twice without a finished step "
                                    "between"));
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Recovery, DeathsOfDevicesDriversAndHeadsAreOneCount) {
  auto& run = processes_.start(
      "weft", run_into("out", {"training.steps=1000000", "recovery={restarts: 2, within: 1h}"}));
  ASSERT_TRUE(has_steps("out", 3)) << run.text();
  ::kill(process_with("--label back[data=0"), SIGKILL);
  ASSERT_TRUE(eventually([&] { return events("out", "recovered").size() == 1; })) << run.text();
  ::kill(process_with("--weft-role=driver"), SIGKILL);
  ASSERT_TRUE(eventually([&] {
    return run.text().find("started again, restart 2 of 2") != std::string::npos;
  })) << run.text();
  ::kill(process_with("--weft-role=head"), SIGKILL);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.text(),
              HasSubstr("The limit of restarts is reached (recovery.restarts: 2 within"));
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Recovery, WhereNothingCanStartAnyMoreTheRunEndsWithTheCause) {
  auto& run = processes_.start("weft", run_into("out", {"training.steps=1000000"}));
  ASSERT_TRUE(has_steps("out", 3)) << run.text();
  fs::rename(path("out/logs"), path("moved"));
  std::ofstream(path("out/logs")) << "a file, where nobody can make a folder";
  ::kill(process_with("--label back[data=0"), SIGKILL);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.text(),
              AllOf(HasSubstr("cannot write the log file"), HasSubstr("create its folder")));
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Recovery, ARunThatEndsWithoutAHeadIsDoneForTheNextOneAndItsDevicesAreFree) {
  const std::vector<std::string> head_words = {"head", "--listen", "127.0.0.1:0", "--state",
                                               "state"};
  auto& head = processes_.start("weft", head_words);
  const std::string address = head.word_after("Weft's head listens on ");
  for (const char* name : {"worker0", "worker1"})
    processes_.start("weft", {"join", address, "--name", name, "--devices", "2"})
        .word_after("has joined cluster");
  auto arguments = run_into("out", {"cluster.launcher=manual"});
  arguments.insert(arguments.end(), {"--head", address});
  auto& run = processes_.start("weft", arguments);
  ASSERT_TRUE(has_steps("out", 20)) << run.text();
  ::kill(head.pid, SIGKILL);
  expect_undisturbed(run, "out");
  EXPECT_TRUE(eventually([&] { return processes_with("--weft-role=device").empty(); }))
      << "devices end with their driver, also without a head";
  auto& next = processes_.start("weft", {"head", "--listen", address, "--state", "state"});
  next.word_after("Weft's head listens on ");
  const auto status = [&] {
    return nlohmann::json::parse(
        processes_.run("weft", {"status", "--json", "--head", address}).text());
  };
  EXPECT_TRUE(eventually([&] { return status()["meshes"].empty(); })) << status().dump(1);
  EXPECT_THAT(processes_.run("weft", {"runs", "--head", address}).text(), HasSubstr("done"));
  EXPECT_EQ(processes_.run("weft", {"stop", "--head", address}).wait(), 0);
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Recovery, AnAgentThatIsBackBeforeItsEndIsNoticedIsAccepted) {
  auto& head = processes_.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  const auto join = [&]() -> RealProcesses::Process& {
    return processes_.start("weft", {"join", address, "--name", "worker0", "--devices", "1"});
  };
  auto* agent = &join();
  agent->word_after("has joined cluster");
  for (int turn = 0; turn < 5; ++turn) {
    // A stopped head cannot notice the agent's death.
    ::kill(head.pid, SIGSTOP);
    ::kill(agent->pid, SIGKILL);
    auto& next = join();
    ::kill(head.pid, SIGCONT);
    next.word_after("has joined cluster");
    agent = &next;
  }
  auto& twin = join();
  EXPECT_NE(twin.wait(), 0);
  EXPECT_THAT(twin.text(), HasSubstr("a host named 'worker0' has joined already"));
  EXPECT_EQ(processes_.run("weft", {"stop", "--head", address}).wait(), 0);
  EXPECT_TRUE(processes_.none_left());
}

TEST_F(Recovery, AnUnknownSpareIsReportedWithItsPlaceAndTheNearestName) {
  auto& run = processes_.run("weft", run_into("out", {"recovery={spares: [worker2], within: 0s}"}));
  EXPECT_EQ(run.wait(), 2);
  EXPECT_THAT(run.text(), AllOf(HasSubstr("cluster.hosts has no host 'worker2'"),
                                HasSubstr("recovery.within")));
  EXPECT_FALSE(fs::exists(path("out"))) << "nothing had begun";
}

}  // namespace
}  // namespace weft::test

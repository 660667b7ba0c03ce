// Tests that a stopped process is reported like a death, with its parent's view of it, and that
// Ctrl-C ends a run in every state. Prints times: a stop is reported after about 10 s (the limit of
// silence), and the run ends 2 s later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>

#include <future>
#include <thread>

#include "tests/support/killable_run.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

/// Thread of another process, held as a debugger does until that process ends.
class TracedThread final {
 public:
  explicit TracedThread(pid_t thread)
      : thread_([this, thread] {
          const bool attached = ::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) == 0 &&
                                ::ptrace(PTRACE_INTERRUPT, thread, 0, 0) == 0;
          int status = 0;
          stopped_.set_value(attached && ::waitpid(thread, &status, __WALL) == thread &&
                             WIFSTOPPED(status));
          while (attached && ::waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status)) {
          }
        }) {}
  ~TracedThread() { thread_.join(); }
  TracedThread(const TracedThread&) = delete;
  TracedThread& operator=(const TracedThread&) = delete;
  bool stopped() { return stopped_.get_future().get(); }

 private:
  std::promise<bool> stopped_;
  std::thread thread_;
};

/// Returns the thread of a process whose name begins with `prefix`; 0 if there is none.
pid_t thread_named(pid_t pid, const std::string& prefix) {
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid)))
    if (read_file(task.path() / "comm").starts_with(prefix))
      return std::stoi(task.path().filename().string());
  return 0;
}

void expect_told_and_ended(KillableRun& run, std::int64_t stopped, const std::string& who) {
  const bool told = eventually([&] { return !run.events().empty(); });
  const std::int64_t told_after = monotonic_ns() - stopped;
  ASSERT_TRUE(told) << who;
  EXPECT_EQ(run.run().wait(), 1);
  const std::int64_t ended_after = monotonic_ns() - stopped;
  fmt::print("  {} stopped: told after {:.1f} s, ended after {:.1f} s\n", who, told_after / 1e9,
             ended_after / 1e9);
}

// Mesh front waits for gradients and mesh back for activations, but the thread that transfers them
// is stopped. The progress check sees a deadlock.
TEST(Deadlock, ADeadlockOfDevicesEndsTheRunAndNamesTheWaits) {
  KillableRun run("deadlock", KillableRun::Order::kFrontFirst, ", no_progress: 1s");
  const pid_t thread = thread_named(run.device_on(1), "transfers");
  ASSERT_NE(thread, 0);
  const std::int64_t stopped = monotonic_ns();
  TracedThread traced(thread);
  if (!traced.stopped()) GTEST_SKIP() << "this machine does not let a process trace another";
  EXPECT_EQ(run.run().wait(), 1);
  const std::int64_t ended_after = monotonic_ns() - stopped;
  fmt::print("  ended after {:.1f} s\n", ended_after / 1e9);
  EXPECT_THAT(
      run.run().text(),
      AllOf(
          ContainsRegex(
              "step [0-9]+ of 'train' is stuck: no device has made progress for [.0-9]+ s, and "
              "none is running an op"),
          HasSubstr("back[0,0] is in "),
          // Front may have ended its step. Then back waits for the last transfer from front.
          AnyOf(HasSubstr("front[0,0] is in "), HasSubstr("which all its devices have started"))));
  EXPECT_TRUE(run.processes().none_left());
}

struct StopCase {
  KillableRun::Order order;
  int host;  ///< 0: the device of `front`, 1: of `back`
};

class StopDevice : public ::testing::TestWithParam<StopCase> {
 protected:
  const std::string mesh = GetParam().host == 0 ? "front" : "back";
};

TEST_P(StopDevice, AStoppedProcessIsToldWhateverTheOrderOfMeshes) {
  KillableRun run("stop_device", GetParam().order);
  const pid_t victim = run.device_on(GetParam().host);
  const std::int64_t stopped = monotonic_ns();
  ::kill(victim, SIGSTOP);
  expect_told_and_ended(run, stopped, "device of " + mesh);
  EXPECT_THAT(
      run.run().text(),
      AllOf(HasSubstr(fmt::format(
                "{0}[data=0,tensor=0] (mesh {0}, rank 0) on worker{1} device 0 (pid {2}, "
                "epoch 1) has ",
                mesh, GetParam().host, victim)),
            // The agent reports the state; on a loaded machine, the driver or the head does.
            ContainsRegex("has (been|not responded for .* it is) "
                          "stopped \\(state T\\)"),
            HasSubstr(fmt::format("log: out/logs/{}.1.r0.log", mesh))));
  const auto event = run.events().front();
  EXPECT_EQ(event["kind"], "incident");
  EXPECT_EQ(event["mesh"], mesh);
  EXPECT_EQ(event["host"], fmt::format("worker{}", GetParam().host));
  EXPECT_EQ(event["rank"], 0);
  EXPECT_EQ(event["pid"], victim);
  EXPECT_THAT(event["cause"].get<std::string>(), HasSubstr("stopped (state T)"));
  EXPECT_TRUE(run.processes().none_left());
}

INSTANTIATE_TEST_SUITE_P(Orders, StopDevice,
                         ::testing::Values(StopCase{KillableRun::Order::kFrontFirst, 1},
                                           StopCase{KillableRun::Order::kBackFirst, 0}),
                         [](const auto& test) {
                           return std::string(test.param.host == 0 ? "Front" : "Back") +
                                  (test.param.order == KillableRun::Order::kFrontFirst
                                       ? "OfFrontAndBack"
                                       : "OfBackAndFront");
                         });

TEST(StopThread, IsToldAlthoughItsProcessGivesSignsOfLife) {
  KillableRun run("stop_thread", KillableRun::Order::kFrontFirst);
  const pid_t victim = run.device_on(1);
  const pid_t thread = thread_named(victim, "back[");
  ASSERT_NE(thread, 0);
  const std::int64_t stopped = monotonic_ns();
  TracedThread traced(thread);
  if (!traced.stopped()) GTEST_SKIP() << "this machine does not let a process trace another";
  expect_told_and_ended(run, stopped, "thread of back");
  EXPECT_THAT(run.run().text(),
              AllOf(HasSubstr(fmt::format(
                        "(mesh back, rank 0) on worker1 device 0 (pid {}, epoch 1) has had its "
                        "thread {} (back[",
                        victim, thread)),
                    HasSubstr(") stopped (state t)")));
  EXPECT_TRUE(run.processes().none_left());
}

TEST(StopAgent, IsToldAsStoppedAndItsDevicesEnd) {
  KillableRun run("stop_agent", KillableRun::Order::kFrontFirst);
  const pid_t victim = run.agent(1);
  const std::int64_t stopped = monotonic_ns();
  ::kill(victim, SIGSTOP);
  expect_told_and_ended(run, stopped, "agent");
  EXPECT_THAT(run.run().text(), HasSubstr(fmt::format("its agent (pid {}) has ", victim)));
  EXPECT_TRUE(run.processes().none_left());
}

TEST(StopAgent, StartedByHandItsDevicesEndBeforeAnotherGetsThem) {
  RealProcesses processes("stop_joined_agent");
  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  auto& agent = processes.start("weft", {"join", address, "--name", "worker0"});
  agent.word_after("has joined cluster");
  processes.write("run.yaml", "name: r\napp: cluster_app\nwork: {actors: 1, seconds: 60}\n");
  auto& run = processes.start("weft", {"run", "run.yaml", "--head", address});
  const int device = std::stoi(run.word_after("device 0 pid "));
  run.word_after("working");
  ::kill(agent.pid, SIGSTOP);
  EXPECT_TRUE(eventually([&] {
    return head.text().find("host worker0 does not answer: has not responded for") !=
           std::string::npos;
  }));
  const auto left = actors::read_proc_stat(device);  // its agent cannot reap it
  EXPECT_TRUE(!left || left->exiting) << "the device process lives on";
  head.word_after(fmt::format("its agent (pid {}) has not responded for ", agent.pid));
  EXPECT_THAT(head.text(), HasSubstr("it is stopped (state T)"));
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.text(),
              AllOf(HasSubstr("has not responded for "), HasSubstr("stopped (state T)"),
                    ::testing::Not(HasSubstr("(empty)")), ::testing::Not(HasSubstr("died"))));
  // The agent may resume, so its name is not free before it exits.
  auto& another = processes.start("weft", {"join", address, "--name", "worker0"});
  another.word_after(fmt::format("the host name worker0 is used by an agent (pid {} ", agent.pid));
  ::kill(agent.pid, SIGKILL);
  agent.wait();
  another.word_after("has joined cluster");
}

TEST(SignalledAlone, AHeadDiesOfItAndIsStartedAgain) {
  KillableRun run("term_head", 2);
  ::kill(run.head(), SIGTERM);
  EXPECT_THAT(run.run().word_after("weft: the head "),
              AllOf(HasSubstr("died: SIGTERM"), HasSubstr("started again, restart 1 of")));
  ::kill(run.run().pid, SIGINT);
  EXPECT_EQ(run.run().wait(), 130);
}

TEST(SignalledAlone, AnAgentDiesOfIt) {
  KillableRun run("term_agent", 2);
  ::kill(run.agent(1), SIGTERM);
  EXPECT_EQ(run.run().wait(), 1);
  EXPECT_THAT(run.run().text(),
              HasSubstr(fmt::format("its agent (pid {}) died: SIGTERM", run.agent(1))));
}

/// Sends Ctrl-C until the run ends. Expects the hint after the first one, and prints the time from
/// the second one to the end.
void expect_second_interrupt_ends(KillableRun& run) {
  ::kill(run.run().pid, SIGINT);
  EXPECT_TRUE(eventually([&] {
    return run.run().text().find("press Ctrl-C again to stop now") != std::string::npos;
  }));
  const std::int64_t second = monotonic_ns();
  // A signal within a second of the first one counts as its echo.
  EXPECT_TRUE(eventually([&] {
    ::kill(run.run().pid, SIGINT);
    return run.run().wait(std::chrono::milliseconds(50)) >= 0;
  }));
  EXPECT_EQ(run.run().wait(), 130);
  const auto took = (monotonic_ns() - second) / 1e9;
  fmt::print("  the second Ctrl-C ended the run within {:.2f} s\n", took);
  EXPECT_THAT(run.run().text(), HasSubstr("run 'killable' was interrupted"));
  EXPECT_TRUE(run.processes().none_left());
}

TEST(CtrlC, TwiceEndsARunWhoseDeviceIsStopped) {
  KillableRun run("interrupt_stopped", KillableRun::Order::kFrontFirst);
  ::kill(run.device_on(1), SIGSTOP);
  expect_second_interrupt_ends(run);
  const auto events = run.events();
  ASSERT_GE(events.size(), 2u);  // the driver may report other ends too
  EXPECT_EQ(events[0]["kind"], "interruption");
  EXPECT_EQ(events[1]["kind"], "interruption");
  EXPECT_EQ(events[0]["cause"], fmt::format("SIGINT from pid {} (tests_cluster)", ::getpid()));
}

TEST(CtrlC, TwiceEndsARunWhoseAgentIsStopped) {
  KillableRun run("interrupt_stopped_agent", KillableRun::Order::kFrontFirst);
  ::kill(run.agent(0), SIGSTOP);
  expect_second_interrupt_ends(run);
}

TEST(CtrlC, TwiceEndsARunWhoseDriverAndHeadAreStopped) {
  KillableRun run("interrupt_stopped_driver", 2);
  ::kill(run.driver(), SIGSTOP);
  ::kill(run.head(), SIGSTOP);
  expect_second_interrupt_ends(run);
}

TEST(CtrlC, TwiceEndsARunWhoseDevicesCompute) {
  KillableRun run("interrupt_computing", 2, 0, true);
  expect_second_interrupt_ends(run);
}

TEST(CtrlC, WhileTheRunStartsEndsIt) {
  RealProcesses processes("interrupt_start");
  // The run waits for a host that never joins.
  auto& head = processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"});
  const std::string address = head.word_after("Weft's head listens on ");
  processes.write("run.yaml", "name: r\napp: cluster_app\nwork: {actors: 1, seconds: 60}\n");
  auto& run = processes.start("weft", {"run", "run.yaml", "--head", address, "--out", "out"});
  // the run asks the head which hosts have joined
  EXPECT_TRUE(eventually([&] { return thread_named(run.pid, "weft-io") != 0; }));
  ::kill(run.pid, SIGINT);
  EXPECT_EQ(run.wait(), 130);
  EXPECT_THAT(run.text(), HasSubstr("stopping the start of the cluster"));
}

}  // namespace
}  // namespace weft::test

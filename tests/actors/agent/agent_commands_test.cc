// Tests which processes may send commands to an agent.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <map>

#include "actors/agent/agent.h"
#include "actors/agent/binary_hashes.h"
#include "actors/system/system.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using test::error_of;

/// Launcher that refuses every launch. With `pretends`, it claims to have started a process.
class NoLauncher final : public ProcessLauncher {
 public:
  pid_t launch(const ProcessSpec&, ProcessEvents) override {
    const int number = ++launches;
    if (!pretends) throw_error(ErrorCode::kNotFound, "nothing is started here");
    return 1'000'000'000 + number;
  }
  void signal(pid_t, int) override {}
  void stop(pid_t, Nanoseconds) override {}
  void stop_all(Nanoseconds) override {}
  void signal_all(int) override {}
  std::atomic<int> launches = 0;
  std::atomic<bool> pretends = false;
};

/// Agent under test, with two other processes that hold the cluster's token.
class AgentCommands : public ::testing::Test {
 protected:
  AgentCommands() {
    AgentEvents events;
    events.on_death = [this](const ProcessRef&, const DeathReport&) { ++deaths; };
    events.on_run_end = [](const ProcessRef&, const DetachedRunExit&) {};
    events.on_processes = [](std::size_t) {};
    events.on_shut_down = [this](const std::string&) { ++shut_downs; };
    const Address at = agent_system.listen({"127.0.0.1", 0});
    AgentConfig config{"w0", at, scratch.path(), scratch.path(), false, "/bin/false", {}};
    own = agent_system.host_with<Agent>("agent", [&, config, events](Context& context) {
      return std::make_unique<Agent>(context, config, events, launcher);
    });
    of_head = head.named<Agent>(head.connect(at), "agent");
    of_stranger = stranger.named<Agent>(stranger.connect(at), "agent");
  }

  /// Calls every command that starts or ends processes. Returns their error codes by name;
  /// ErrorCode{} if a command succeeded.
  std::map<std::string, ErrorCode> results(const ActorRef<Agent>& agent) {
    std::map<std::string, ErrorCode> results;
    const auto add = [&](const char* name, const auto& command) {
      try {
        command();
        results[name] = ErrorCode{};
      } catch (const Error& error) {
        results[name] = error.code();
      }
    };
    LaunchRequest launch;
    launch.key = {"front", 1};
    launch.term = 1;
    launch.binary = "/no/such/file";
    RunSubmission run;
    run.name = "run";
    run.app = "/no/such/file";
    add("launch", [&] { (void)agent.call<&Agent::launch>(launch).get(); });
    add("adopt_ranks", [&] {
      (void)agent
          .call<&Agent::adopt_ranks>(launch.key, launch.key, std::vector<std::uint32_t>{},
                                     std::uint64_t{1}, ProcessId(1))
          .get();
    });
    add("stop_mesh", [&] {
      agent
          .call<&Agent::stop_mesh>(launch.key, true, std::uint64_t{1}, std::vector<std::uint32_t>{})
          .get();
    });
    add("start_run", [&] { (void)agent.call<&Agent::start_run>(run, std::uint64_t{1}).get(); });
    add("signal_run",
        [&] { agent.call<&Agent::signal_run>(std::uint64_t{1}, true, std::uint64_t{1}).get(); });
    add("shut_down",
        [&] { agent.call<&Agent::shut_down>(std::string("for a test"), std::uint64_t{1}).get(); });
    return results;
  }
  void expect_refused(const ActorRef<Agent>& agent) {
    for (const auto& [name, code] : results(agent))
      EXPECT_EQ(code, ErrorCode::kFailedPrecondition) << name;
  }
  void expect_obeyed(const ActorRef<Agent>& agent) {
    for (const auto& [name, code] : results(agent))
      EXPECT_NE(code, ErrorCode::kFailedPrecondition) << name;
  }

  test::ScratchFolder scratch;
  NoLauncher launcher;
  std::atomic<int> shut_downs = 0;
  std::atomic<int> deaths = 0;
  System agent_system{test::system_options("agent")}, head{test::system_options("head")},
      stranger{test::system_options("stranger")};
  ActorRef<Agent> own, of_head, of_stranger;
};

TEST_F(AgentCommands, CommandsBeforeTheAgentJoinsAreRefused) {
  expect_refused(of_head);
  expect_refused(own);
  EXPECT_EQ(shut_downs, 0);
}

TEST_F(AgentCommands, ItObeysTheHeadThatItIsJoiningAlready) {
  (void)own.call<&Agent::prepare_join>(head.self()).get();
  expect_obeyed(of_head);
  EXPECT_EQ(shut_downs, 1);
  expect_refused(of_stranger);
  EXPECT_EQ(shut_downs, 1);
}

TEST_F(AgentCommands, ItObeysTheHeadThatItHasJoinedAndNotTheOneBefore) {
  (void)own.call<&Agent::prepare_join>(stranger.self()).get();
  own.call<&Agent::complete_join>(stranger.self(), std::uint64_t{1}, std::int64_t{0}).get();
  expect_obeyed(of_stranger);
  (void)own.call<&Agent::prepare_join>(head.self()).get();
  expect_obeyed(of_stranger);  // the next head has not replied yet
  own.call<&Agent::complete_join>(head.self(), std::uint64_t{1}, std::int64_t{0}).get();
  expect_obeyed(of_head);
  expect_refused(of_stranger);
}

TEST_F(AgentCommands, OnlyTheHeadNamesTheHead) {
  EXPECT_EQ(
      error_of([&] { (void)of_stranger.call<&Agent::prepare_join>(stranger.self()).get(); }).code(),
      ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] {
              of_stranger
                  .call<&Agent::complete_join>(stranger.self(), std::uint64_t{9}, std::int64_t{0})
                  .get();
            }).code(),
            ErrorCode::kInvalidArgument);
  expect_refused(of_stranger);
  EXPECT_EQ(launcher.launches, 0);
}

/// An agent whose head has started the process of one device, which this test plays.
class AgentWithDevice : public AgentCommands {
 protected:
  AgentWithDevice() {
    launcher.pretends = true;
    own.call<&Agent::prepare_join>(head.self()).get();
    own.call<&Agent::complete_join>(head.self(), std::uint64_t{1}, std::int64_t{0}).get();
    LaunchRequest request;
    request.key = key;
    request.term = 1;
    request.binary = "/proc/self/exe";
    request.binary_sha256 = binary_sha256(request.binary, scratch.path());
    request.devices = {{0, 0, "front[0]"}};
    auto launch = of_head.call<&Agent::launch>(request);
    EXPECT_TRUE(test::eventually([this] { return launcher.launches == 1; }));
    of_device = device.named<Agent>(device.connect(own.address().process.address), "agent");
    EXPECT_EQ(of_device.call<&Agent::device_ready>(slot, MemoryCap()).get(), 0u);
    EXPECT_EQ(launch.get().at(0).process.id, device.self().id);
  }
  bool runs() {
    return of_head.call<&Agent::are_running>(key, std::vector<std::uint32_t>{0}).get();
  }

  const MeshKey key{"front", 1};
  const std::uint64_t slot = 1;
  System device{test::system_options("device")};
  ActorRef<Agent> of_device;
};

TEST_F(AgentWithDevice, OnlyItsOwnProcessMarksADeviceAsDead) {
  const std::int64_t silence_ns = 10'000'000'000;
  for (const auto& agent : {of_stranger, of_device, of_head})
    EXPECT_EQ(error_of([&] {
                agent.call<&Agent::process_timed_out>(device.self().id, silence_ns).get();
              }).code(),
              ErrorCode::kInvalidArgument);
  EXPECT_TRUE(runs());
  EXPECT_EQ(deaths, 0);
  own.call<&Agent::process_timed_out>(device.self().id, silence_ns).get();
  EXPECT_FALSE(runs());
  EXPECT_EQ(deaths, 1);
}

TEST_F(AgentWithDevice, NoOtherProcessTakesTheSlotOfADevice) {
  EXPECT_EQ(error_of([&] {
              (void)of_stranger.call<&Agent::device_ready>(slot, MemoryCap()).get();
            }).code(),
            ErrorCode::kFailedPrecondition);
  EXPECT_EQ(of_device.call<&Agent::device_ready>(slot, MemoryCap()).get(), 0u)
      << "it may ask again";
  own.call<&Agent::process_timed_out>(stranger.self().id, std::int64_t{10'000'000'000}).get();
  EXPECT_TRUE(runs());
}

}  // namespace
}  // namespace weft::actors

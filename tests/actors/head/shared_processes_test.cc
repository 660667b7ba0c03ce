// Shared processes that a head starts on a host, whose agent starts Systems of this process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/agent/agent.h"
#include "actors/agent/binary_hashes.h"
#include "actors/head/head.h"
#include "actors/system/system.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using test::error_of;
using test::eventually;
using ::testing::HasSubstr;

/// Launcher whose processes are Systems of this process that report to the agent.
class SystemLauncher final : public ProcessLauncher {
 public:
  ~SystemLauncher() override {
    for (std::thread& thread : threads_) thread.join();
  }
  pid_t launch(const ProcessSpec& spec, ProcessEvents events) override {
    const auto argument = [&](const std::string& name) {
      return *(std::ranges::find(spec.command, "--" + name) + 1);
    };
    const std::lock_guard lock(mutex_);
    if (std::exchange(refuses_next, false))
      throw_error(ErrorCode::kResourceExhausted, "nothing is started here");
    const pid_t pid = ++last_pid_;
    running_[pid] = std::move(events);
    labels.push_back(spec.label);
    systems_.push_back(std::make_unique<System>(test::system_options(spec.label)));
    threads_.emplace_back([&system = *systems_.back(), at = Address::parse(argument("agent")),
                           slot = std::stoull(argument("slot"))] {
      (void)system.listen({"127.0.0.1", 0});
      auto agent = system.named<Agent>(system.connect(at), "agent");
      (void)agent.call<&Agent::device_ready>(slot, MemoryCap()).get();
    });
    return pid;
  }
  void signal(pid_t, int) override {}
  void stop(pid_t pid, Nanoseconds) override { end(pid, std::nullopt); }
  void stop_all(Nanoseconds) override {}
  void signal_all(int) override {}

  void kill(pid_t pid) {
    ExitReport evidence;
    evidence.has_parent_report = true;
    evidence.pid = pid;
    evidence.signal = 9;
    end(pid, evidence);
  }
  std::size_t running() {
    const std::lock_guard lock(mutex_);
    return running_.size();
  }
  std::vector<std::string> labels;  ///< Of all processes so far.
  bool refuses_next = false;

 private:
  void end(pid_t pid, const std::optional<ExitReport>& death) {
    std::unique_lock lock(mutex_);
    const auto found = running_.extract(pid);
    lock.unlock();
    if (!found) return;
    if (death) found.mapped().on_death(*death);
    found.mapped().on_reaped(death.value_or(ExitReport()));
  }

  std::mutex mutex_;
  pid_t last_pid_ = 1'000'000'000;
  std::map<pid_t, ProcessEvents> running_;
  std::vector<std::unique_ptr<System>> systems_;
  std::vector<std::thread> threads_;
};

/// Head with a host of one device, and an owner of meshes.
class SharedProcessesTest : public ::testing::Test {
 protected:
  SharedProcessesTest() {
    system.on_peer_disconnected([this](const ProcessRef& peer, const Error&, DisconnectCause how) {
      system.named<Head>(system.self(), "head")
          .tell<&Head::peer_disconnected>(peer.id, how == DisconnectCause::kDisconnected);
    });
    const Address at = system.listen({"127.0.0.1", 0});
    const HeadEvents ignored{[](const ClusterEvent&) {}, [](const std::string&) {},
                             [](const std::string&) {}};
    own = system.host_with<Head>("head", [&](Context& context) {
      return std::make_unique<Head>(context, HeadConfig{at, scratch.path() / "state"}, ignored);
    });
    join(at);
    head = owner->named<Head>(owner->connect(at), "head");
    (void)head.call<&Head::register_owner>(OwnerRegistration{"run r"}).get();
  }
  ~SharedProcessesTest() override {
    owner.reset();
    EXPECT_TRUE(eventually([this] { return launcher.running() == 0; }))
        << "the processes of an owner end with it";
  }
  void join(const Address& at) { agent = join(host, "a", at); }
  /// Joins a host whose agent is an actor of `process`.
  ActorRef<Agent> join(System& process, const std::string& name, const Address& at) {
    AgentEvents events;
    events.on_death = [&process](const ProcessRef& to, const DeathReport& report) {
      process.named<Head>(to, "head").tell<&Head::process_died>(report);
    };
    events.on_processes = [](std::size_t) {};
    events.on_shut_down = [](const std::string&) {};
    const AgentConfig config{name, process.listen({"127.0.0.1", 0}), scratch.path(),
                             scratch.path()};
    const auto joining = process.host_with<Agent>("agent", [&](Context& context) {
      return std::make_unique<Agent>(context, config, events, launcher);
    });
    const ProcessRef to = process.connect(at);
    const AgentReport report = joining.call<&Agent::prepare_join>(to).get();
    HostRegistration offer;
    offer.name = name;
    offer.devices = 1;
    const JoinReply joined = process.named<Head>(to, "head").call<&Head::join>(offer, report).get();
    joining.call<&Agent::complete_join>(to, joined.term, joined.grace_ns).get();
    return joining;
  }
  MeshRequest request(const std::string& mesh, std::int64_t ranks) const {
    MeshRequest request{mesh, MeshShape{{"unit", ranks}}, {}, "/proc/self/exe", sha256, {}};
    request.needs = {};
    request.process = ActorProcess::kShared;
    return request;
  }
  MeshProcesses spawn(const MeshRequest& wanted) { return head.call<&Head::spawn>(wanted).get(); }
  std::string state(const std::string& mesh) {
    for (const MeshStatus& each : own.call<&Head::status>().get().meshes)
      if (each.key.name == mesh) return each.state;
    return "";
  }

  const test::ScratchFolder scratch;
  const std::string sha256 = binary_sha256("/proc/self/exe", scratch.path());
  SystemLauncher launcher;
  System system{test::system_options("head")}, host{test::system_options("a")};
  std::optional<System> owner{test::system_options("owner")};
  ActorRef<Head> own, head;
  ActorRef<Agent> agent;
};

TEST_F(SharedProcessesTest, MeshesOfAnOwnerShareAProcessOfTheirHost) {
  auto one = head.call<&Head::spawn>(request("one", 3));
  auto two = head.call<&Head::spawn>(request("two", 1));
  const MeshProcesses first = one.get(), second = two.get();
  EXPECT_EQ(launcher.labels, std::vector<std::string>{"shared-process@a"}) << "one start for both";
  ASSERT_EQ(first.processes.size(), 3u);
  EXPECT_EQ(first.process, ActorProcess::kShared);
  for (const DeviceProcess& rank : first.processes)
    EXPECT_EQ(rank.process.id, second.processes[0].process.id);
  EXPECT_EQ(first.processes[2].rank, 2u);
  EXPECT_EQ(first.processes[2].place, (HostDevice{"a", kNoDevice}));
  MeshRequest capped = request("capped", 1);
  capped.memory_cap = 1u << 30;
  EXPECT_NE(spawn(capped).processes[0].process.id, second.processes[0].process.id);
  MeshRequest separate = request("separate", 1);
  separate.process = ActorProcess::kOwn;
  EXPECT_EQ(spawn(separate).process, ActorProcess::kOwn);
  EXPECT_EQ(launcher.labels.back(), "separate[unit=0]");
}

TEST_F(SharedProcessesTest, AMeshMayNeedAProcessOnEachOfManyHosts) {
  const std::size_t count = 8;
  std::vector<std::unique_ptr<System>> hosts;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = "more" + std::to_string(i);
    hosts.push_back(std::make_unique<System>(test::system_options(name)));
    (void)join(*hosts.back(), name, system.self().address);
  }
  MeshRequest wanted = request("wide", static_cast<std::int64_t>(count));
  for (std::size_t i = 0; i < count; ++i) wanted.hosts.push_back("more" + std::to_string(i));
  wanted.strategy = PlacementStrategy::kSpread;
  const MeshProcesses wide = spawn(wanted);
  EXPECT_EQ(launcher.labels.size(), count);
  std::set<std::uint64_t> different;
  for (const DeviceProcess& rank : wide.processes) different.insert(rank.process.id.value());
  EXPECT_EQ(different.size(), count);
  owner.reset();
  EXPECT_TRUE(eventually([this] { return launcher.running() == 0; }))
      << "each shared process is a mesh, and all are released";
}

TEST_F(SharedProcessesTest, AReleasedMeshLeavesTheProcess) {
  const MeshProcesses one = spawn(request("one", 2)), two = spawn(request("two", 1));
  head.call<&Head::release>(one.key).get();
  EXPECT_EQ(state("one"), "");
  EXPECT_EQ(state("two"), "running");
  EXPECT_EQ(launcher.running(), 1u);
  EXPECT_EQ(spawn(request("one", 1)).processes[0].process.id, two.processes[0].process.id);
}

TEST_F(SharedProcessesTest, AfterADeathTheMeshesMeetInTheNextProcess) {
  const MeshProcesses one = spawn(request("one", 2)), two = spawn(request("two", 1));
  launcher.kill(static_cast<pid_t>(one.processes[0].pid));
  EXPECT_TRUE(eventually([this] { return state("one") == "failed" && state("two") == "failed"; }));
  const RenewedMesh first =
      head.call<&Head::renew>(MeshRenewal{one.key, request("one", 2), {}}).get();
  const RenewedMesh second =
      head.call<&Head::renew>(MeshRenewal{two.key, request("two", 1), {}}).get();
  EXPECT_EQ(launcher.labels.size(), 2u) << "one new process";
  EXPECT_NE(first.processes[0].process.id, one.processes[0].process.id);
  EXPECT_EQ(first.processes[1].process.id, first.processes[0].process.id);
  EXPECT_EQ(second.processes[0].process.id, first.processes[0].process.id);
  EXPECT_EQ(first.problem, "");
}

TEST_F(SharedProcessesTest, LivingProcessesStayEvenForBrokenRanks) {
  const MeshProcesses one = spawn(request("one", 2));
  const RenewedMesh renewed =
      head.call<&Head::renew>(MeshRenewal{one.key, request("one", 2), {0, 1}}).get();
  EXPECT_EQ(renewed.key.epoch, one.key.epoch + 1);
  for (const DeviceProcess& rank : renewed.processes)
    EXPECT_EQ(rank.process.id, one.processes[0].process.id);
  EXPECT_EQ(launcher.labels.size(), 1u);
  EXPECT_FALSE(head.call<&Head::has_dead_process>(std::vector<MeshKey>{renewed.key}).get());
}

TEST_F(SharedProcessesTest, AMeshKeepsItsKindOfProcess) {
  const MeshProcesses one = spawn(request("one", 1));
  MeshRequest with_device = request("one", 1);
  with_device.needs.devices = 1;
  EXPECT_THAT(error_of([&] {
                (void)head.call<&Head::renew>(MeshRenewal{one.key, with_device, {}}).get();
              }).message(),
              HasSubstr("cannot be renewed in own processes, as its actors run in shared ones"));
}

TEST_F(SharedProcessesTest, AStartThatFailsLeavesNothing) {
  launcher.refuses_next = true;
  EXPECT_THAT(error_of([&] { (void)spawn(request("one", 1)); }).message(),
              HasSubstr("nothing is started here"));
  EXPECT_EQ(state("one"), "");
  EXPECT_EQ(spawn(request("one", 1)).processes.size(), 1u);
}

TEST_F(SharedProcessesTest, TheNameOfSharedProcessesIsReserved) {
  EXPECT_THAT(error_of([&] { (void)spawn(request(kSharedProcessName, 1)); }).message(),
              HasSubstr("which names the processes that actors share; take another name"));
}

}  // namespace
}  // namespace weft::actors

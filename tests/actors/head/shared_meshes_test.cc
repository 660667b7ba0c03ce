// Shared processes in the MeshTable: the meshes whose actors run in them, and their deaths.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/head/mesh_table.h"
#include "tests/actors/head/recorded_owners.h"
#include "tests/support/scratch_folder.h"

namespace weft::actors {
namespace {

using test::kOwner;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ProcessId kOnA{50}, kOnB{51};

/// Table with a shared process on each of the hosts a and b, and three meshes: `both` has ranks 0
/// and 2 on a and rank 1 on b, `one` is on a, `other` on b.
class SharedMeshesTest : public ::testing::Test {
 protected:
  SharedMeshesTest() {
    devices.add_host("a", 1);
    devices.add_host("b", 1);
    put_shared(shared_a, "a", kOnA);
    put_shared(shared_b, "b", kOnB);
    put(both, {{"a", kOnA}, {"b", kOnB}, {"a", kOnA}});
    put(one, {{"a", kOnA}});
    put(other, {{"b", kOnB}});
    table.read_rows();
  }
  static DeviceProcess process(std::uint32_t rank, const std::string& host, ProcessId id) {
    DeviceProcess process;
    process.rank = rank;
    process.place = {host, kNoDevice};
    process.process.id = id;
    process.pid = static_cast<std::int64_t>(id.value());
    return process;
  }
  void put_shared(const MeshKey& key, const std::string& host, ProcessId id) {
    MeshRow row;
    row.request.mesh = kSharedProcessName;
    row.request.shape = MeshShape();
    row.request.hosts = {host};
    row.request.needs = {};
    row.owner = kOwner;
    row.places = {{host, kNoDevice}};
    row.processes = {process(0, host, id)};
    row.is_shared_process = true;
    store.put(StateStore::Table::kMeshes, key.text(), encode(row));
  }
  void put(const MeshKey& key, const std::vector<std::pair<std::string, ProcessId>>& ranks) {
    MeshRow row;
    row.request = request();
    row.request.mesh = key.name;
    row.request.shape = MeshShape({{"unit", static_cast<std::int64_t>(ranks.size())}});
    row.owner = kOwner;
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
      row.places.push_back({ranks[rank].first, kNoDevice});
      row.processes.push_back(process(rank, ranks[rank].first, ranks[rank].second));
    }
    store.put(StateStore::Table::kMeshes, key.text(), encode(row));
  }
  /// Returns the request of a mesh in shared processes.
  static MeshRequest request() {
    MeshRequest request;
    request.needs = {};
    request.process = ActorProcess::kShared;
    return request;
  }
  static HostRegistration host(const std::string& name) {
    HostRegistration host;
    host.name = name;
    host.machine = "another machine";
    return host;
  }
  static ExitReport killed() {
    ExitReport evidence;
    evidence.has_parent_report = true;
    evidence.signal = 9;
    evidence.tail_lines = {"the last line"};
    evidence.log_file = "log";
    evidence.log_read = true;
    return evidence;
  }
  std::string state(const MeshKey& key) { return table.find(key)->state(); }

  const MeshKey shared_a{kSharedProcessName, 1}, shared_b{kSharedProcessName, 2};
  const MeshKey both{"both", 1}, one{"one", 1}, other{"other", 1};
  const test::ScratchFolder scratch;
  ManualClock clock;
  StateStore store{scratch.path()};
  ResourceAllocator devices;
  std::vector<std::string> logged;
  EventLog log{store, [this](const ClusterEvent& event) { logged.push_back(event.text); }};
  test::RecordedOwners owners;
  MeshTable table{clock, store, devices, log, owners};
};

TEST_F(SharedMeshesTest, ADeathFailsEachMeshWithItsOwnRanks) {
  table.process_died({shared_a, 0, kNoDevice, killed()}, ProcessId(7), "a");
  ASSERT_EQ(owners.failures.size(), 2u) << "one report per mesh, and none of the process itself";
  const Incident& of_both = owners.failures[0].incident;
  EXPECT_EQ(of_both.mesh, "both");
  ASSERT_EQ(of_both.failures.size(), 2u);
  EXPECT_EQ(of_both.failures[0].actor, "both[unit=0]");
  EXPECT_EQ(of_both.failures[1].actor, "both[unit=2]");
  EXPECT_THAT(of_both.failures[1].evidence.tail_lines, IsEmpty()) << "one copy of the log";
  EXPECT_THAT(owners.failures[0].dead, ElementsAre(kOnA));
  EXPECT_EQ(owners.failures[1].incident.mesh, "one");
  EXPECT_EQ(
      of_both.describe(),
      "both[unit=0] (mesh both, rank 0) on a (pid 50, epoch 1) died: SIGKILL; log: log, which "
      "ends with:\n  | the last line\n  (1 more actor of mesh both ran in this process)");
  EXPECT_EQ(of_both.summary(), "a (pid 50) died: SIGKILL");
  EXPECT_EQ(state(both), "failed");
  EXPECT_EQ(state(one), "failed");
  EXPECT_EQ(state(other), "running");
  EXPECT_EQ(state(shared_a), "failed");
  EXPECT_EQ(state(shared_b), "running");
}

TEST_F(SharedMeshesTest, AnOwnerReportsTheProcessOfAnActor) {
  table.process_died({one, 0, kNoDevice, killed()}, kOwner, "");
  EXPECT_EQ(state(shared_a), "failed");
  EXPECT_EQ(state(both), "failed");
  table.process_died({other, 0, kNoDevice, killed()}, ProcessId(8), "");
  EXPECT_EQ(state(other), "running") << "a stranger reports nothing";
}

TEST_F(SharedMeshesTest, ALostHostIsADeathOfItsSharedProcess) {
  table.fail_ranks_on(host("b"), {}, "its agent (pid 7) died: SIGKILL");
  ASSERT_EQ(owners.failures.size(), 2u);
  EXPECT_THAT(table.find(both)->dead, ElementsAre(1u));
  EXPECT_EQ(state(one), "running");
  EXPECT_EQ(state(other), "failed");
}

TEST_F(SharedMeshesTest, AHostThatReturnsRunsTheSharedProcessOnly) {
  EXPECT_THAT(table.reconcile(host("a"), {{shared_a, process(0, "a", kOnA)}}), IsEmpty());
  EXPECT_THAT(owners.failures, IsEmpty()) << "the agent knows no mesh of actors";
  EXPECT_THAT(table.reconcile(host("b"), {}), IsEmpty());
  EXPECT_THAT(table.find(both)->dead, ElementsAre(1u));
  EXPECT_EQ(state(other), "failed");
  EXPECT_EQ(owners.failures.size(), 2u);
}

TEST_F(SharedMeshesTest, RanksWithoutASharedProcessFailWhenTheirHostReturns) {
  table.erase(shared_a);
  EXPECT_THAT(table.reconcile(host("a"), {}), IsEmpty());
  EXPECT_EQ(state(one), "failed");
  EXPECT_THAT(table.find(both)->dead, ElementsAre(0u, 2u));
}

TEST_F(SharedMeshesTest, AProcessIsFoundByItsOwnerHostAndProgram) {
  EXPECT_EQ(table.find_shared(kOwner, "a", request()), shared_a);
  EXPECT_FALSE(table.find_shared(ProcessId(10), "a", request()));
  EXPECT_FALSE(table.find_shared(kOwner, "c", request()));
  MeshRequest capped = request();
  capped.memory_cap = 1;
  EXPECT_FALSE(table.find_shared(kOwner, "a", capped));
  EXPECT_EQ(table.find_shared(kOnB), shared_b);
  table.process_died({shared_a, 0, kNoDevice, killed()}, ProcessId(7), "a");
  EXPECT_FALSE(table.find_shared(kOwner, "a", request())) << "the next one is another process";
  EXPECT_FALSE(table.find_shared(kOnA));
}

TEST_F(SharedMeshesTest, TheDeathOfAProcessSurvivesTheHead) {
  table.process_died({shared_a, 0, kNoDevice, killed()}, ProcessId(7), "a");
  MeshTable next{clock, store, devices, log, owners};
  next.read_rows();
  EXPECT_EQ(next.find(shared_a)->state(), "failed");
  EXPECT_FALSE(next.find_shared(kOwner, "a", request()));
  EXPECT_EQ(next.find_shared(kOwner, "b", request()), shared_b);
}

TEST_F(SharedMeshesTest, TheStatusOfAHostCountsTheActors) {
  HostStatus status;
  status.offer.name = "a";
  status.device_users.resize(1);
  table.add_device_users(status);
  EXPECT_THAT(status.other_processes, ElementsAre("shared process of run r: 3 actors, pid 50"));
  EXPECT_EQ(status.device_users[0], "") << "it has no device";
  for (const MeshStatus& mesh : table.statuses()) EXPECT_NE(mesh.key.name, kSharedProcessName);
}

TEST_F(SharedMeshesTest, TheRecordOfARunNamesTheActors) {
  table.record_devices(both, *table.find(both));
  table.record_devices(shared_a, *table.find(shared_a));
  ASSERT_EQ(owners.devices.size(), 3u);
  EXPECT_EQ(owners.devices[2].label, "both[unit=2]");
  EXPECT_EQ(owners.devices[2].process.id, kOnA);
}

}  // namespace
}  // namespace weft::actors

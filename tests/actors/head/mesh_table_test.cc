#include "actors/head/mesh_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/head/recorded_owners.h"
#include "tests/support/scratch_folder.h"

namespace weft::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using test::kOwner;
constexpr ProcessId kNextOwner{10}, kAgentOfA{7}, kStranger{8};

/// Table with the mesh `front` of two ranks, on the hosts a and b.
class MeshTableTest : public ::testing::Test {
 protected:
  MeshTableTest() {
    devices.add_host("a", 1);
    devices.add_host("b", 1);
    MeshRow row;
    row.request.mesh = "front";
    row.request.shape = MeshShape({{"data", 2}});
    row.owner = kOwner;
    row.places = {{"a", 0}, {"b", 0}};
    row.processes = {process(0, "a", 50), process(1, "b", 51)};
    store.put(StateStore::Table::kMeshes, front.text(), encode(row));
    row.owner = kStranger;
    row.places = {};
    row.processes = {};
    store.put(StateStore::Table::kMeshes, "orphan.1", encode(row));
    table.read_rows();
  }
  static DeviceProcess process(std::uint32_t rank, const std::string& host, std::int64_t pid) {
    DeviceProcess process;
    process.rank = rank;
    process.place = {host, 0};
    process.process.id = ProcessId(static_cast<std::uint64_t>(pid));
    process.pid = pid;
    return process;
  }
  static HostRegistration host(const std::string& name) {
    HostRegistration host;
    host.name = name;
    host.machine = "another machine";
    return host;
  }
  MeshTable::Mesh& mesh() { return *table.find(front); }

  const MeshKey front{"front", 1};
  const test::ScratchFolder scratch;
  ManualClock clock;
  StateStore store{scratch.path()};
  ResourceAllocator devices;
  std::vector<std::string> logged;
  EventLog log{store, [this](const ClusterEvent& event) { logged.push_back(event.text); }};
  test::RecordedOwners owners;
  MeshTable table{clock, store, devices, log, owners};
};

TEST_F(MeshTableTest, SavedMeshesHaveTheirDevicesAndEndWithoutAnOwner) {
  EXPECT_EQ(mesh().state(), "running");
  EXPECT_EQ(devices.hosts().at(1).users.at(0), front);
  EXPECT_EQ(table.find({"orphan", 1})->state(), "ending");
  EXPECT_TRUE(table.any_releasing());
}

TEST_F(MeshTableTest, ADeathIsReportedByTheAgentOfItsHostOrTheOwner) {
  table.process_died({front, 1, 0, {}}, kAgentOfA, "a");
  table.process_died({front, 0, 0, {}}, kStranger, "");
  table.process_died({front, 7, 0, {}}, kAgentOfA, "a");
  EXPECT_EQ(mesh().state(), "running");
  table.process_died({front, 0, 0, {}}, kAgentOfA, "a");
  EXPECT_EQ(mesh().state(), "failed");
  table.process_died({front, 1, 0, {}}, kOwner, "");
  ASSERT_EQ(owners.failures.size(), 2u);
  EXPECT_THAT(owners.failures.at(0).dead, ElementsAre(ProcessId(50)));
  EXPECT_THAT(owners.failures.at(1).dead, ElementsAre(ProcessId(50), ProcessId(51)));
  EXPECT_EQ(owners.failures.at(1).incident.failures.size(), 2u) << "one incident of both";
  EXPECT_THAT(store.last_events(1).at(0).text, HasSubstr("weft logs r 'front[data=1]'"));
}

TEST_F(MeshTableTest, ALostHostFailsTheRanksThereAndKeepsNoDevices) {
  table.fail_ranks_on(host("b"), {}, "its agent (pid 7) died: SIGKILL");
  EXPECT_THAT(mesh().dead, ElementsAre(1u));
  table.detach_host("b");
  EXPECT_THAT(mesh().ranks_on("b"), IsEmpty());
  EXPECT_FALSE(table.uses_host(kOwner, "b"));
  EXPECT_TRUE(table.uses_host(kOwner, "a"));
}

TEST_F(MeshTableTest, AHostThatReturnsFailsMeshesWhoseProcessHasEnded) {
  EXPECT_THAT(table.reconcile(host("a"), {{front, process(0, "a", 50)}}), IsEmpty());
  EXPECT_EQ(mesh().state(), "running");
  EXPECT_THAT(table.reconcile(host("b"), {}), IsEmpty());
  EXPECT_THAT(mesh().dead, ElementsAre(1u));
  EXPECT_THAT(logged.at(0), HasSubstr("it ended while its host was disconnected"));
}

TEST_F(MeshTableTest, ProcessesThatNoMeshHasAreUnknown) {
  const MeshKey lost{"front", 5};
  const auto unknown =
      table.reconcile(host("a"), {{front, process(0, "a", 50)}, {lost, process(0, "a", 60)}});
  ASSERT_EQ(unknown.size(), 1u);
  EXPECT_EQ(unknown.at(lost).at(0).pid, 60);
  EXPECT_EQ(store.next_mesh_epoch("front"), 6u) << "no epoch comes twice";
}

TEST_F(MeshTableTest, ProcessesOfAMeshThatStartsAreNotUnknown) {
  const MeshKey next{"front", 2};
  table.add(next).renewing = true;
  EXPECT_THAT(
      table.reconcile(host("a"), {{front, process(0, "a", 50)}, {next, process(0, "a", 60)}}),
      IsEmpty());
  EXPECT_EQ(table.find(next)->state(), "recovering");
}

TEST_F(MeshTableTest, RunningMeshesGoToTheNextOwner) {
  table.transfer(kOwner, kNextOwner);
  EXPECT_TRUE(table.owns_any(kNextOwner));
  EXPECT_FALSE(table.owns_any(kOwner));
  MeshDevices described{front, {"cpu", "cpu"}};
  table.set_device_descriptions(described, kOwner);
  EXPECT_THAT(mesh().devices, IsEmpty());
  table.set_device_descriptions(described, kNextOwner);
  EXPECT_EQ(mesh().devices.size(), 2u);
}

}  // namespace
}  // namespace weft::actors

#include "actors/cluster/mesh_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

namespace weft::actors {
namespace {

using ::testing::ElementsAre;

/// Returns a mesh with a process on each of `hosts`; process ids count from `first`. 0: none.
MeshProcesses mesh_of(const MeshKey& key, const std::vector<std::string>& hosts,
                      std::uint64_t first) {
  MeshProcesses mesh{key, {}};
  for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
    DeviceProcess device;
    device.rank = rank;
    device.place = {hosts[rank], rank};
    device.pid = 100 + rank;
    if (first != 0) device.process.id = ProcessId(first + rank);
    device.agent.id = ProcessId(1000 + rank);
    mesh.processes.push_back(device);
  }
  return mesh;
}

TEST(MeshRegistry, KnowsTheDeviceOfEachRank) {
  MeshRegistry registry;
  registry.add_if([] { return true; }, mesh_of({"front", 1}, {"a", "b"}, 7));
  EXPECT_THAT(registry.places_of({"front", 1}),
              ElementsAre(HostDevice{"a", 0}, HostDevice{"b", 1}));
  EXPECT_EQ(registry.describe_device({"front", 1}, 1), "b device 1 (pid 101)");
  EXPECT_EQ(registry.describe_device({"front", 1}, 2), "an unknown device");
  ASSERT_EQ(registry.find(ProcessId(8)).size(), 1u);
  EXPECT_EQ(registry.find(ProcessId(8))[0].device.rank, 1u);
  EXPECT_EQ(registry.find(ProcessId(8))[0].mesh, (MeshKey{"front", 1}));
  EXPECT_THAT(registry.find(ProcessId(9)), ::testing::IsEmpty());
  EXPECT_TRUE(registry.missing_ranks({"front", 1}).empty());
}

TEST(MeshRegistry, FindsEachMeshWithActorsInASharedProcess) {
  MeshRegistry registry;
  MeshProcesses first = mesh_of({"first", 1}, {"a", "a"}, 7);
  first.processes[1].process.id = ProcessId(7);
  for (DeviceProcess& process : first.processes) process.place.device = kNoDevice;
  registry.add_if([] { return true; }, first);
  registry.add_if([] { return true; }, mesh_of({"second", 1}, {"a"}, 7));
  const auto members = registry.find(ProcessId(7));
  ASSERT_EQ(members.size(), 2u) << "one of each mesh";
  EXPECT_EQ(members[0].mesh.name, "first");
  EXPECT_EQ(members[1].mesh.name, "second");
  EXPECT_EQ(registry.describe_device({"first", 1}, 0), "a (pid 100)");
}

TEST(MeshRegistry, AnEpochReplacesTheFormer) {
  MeshRegistry registry;
  registry.add_if([] { return true; }, mesh_of({"front", 1}, {"a"}, 7));
  registry.replace({"front", 1}, mesh_of({"front", 2}, {"b"}, 0));
  EXPECT_THAT(registry.keys(), ElementsAre(MeshKey{"front", 2}));
  EXPECT_THAT(registry.missing_ranks({"front", 2}), ElementsAre(0u));
  EXPECT_EQ(registry.agents().size(), 2u) << "agents of all meshes so far";
  EXPECT_FALSE(registry.remove({"front", 1}));
  EXPECT_TRUE(registry.remove({"front", 2}));
  EXPECT_TRUE(registry.keys().empty());
}

TEST(MeshRegistry, AddsAMeshOnlyWhileItIsValid) {
  MeshRegistry registry;
  EXPECT_FALSE(registry.add_if([] { return false; }, mesh_of({"front", 1}, {"a"}, 7)));
  EXPECT_FALSE(registry.contains({"front", 1}));
  EXPECT_TRUE(registry.add_if([] { return true; }, mesh_of({"front", 1}, {"a"}, 7)));
  EXPECT_TRUE(registry.contains({"front", 1}));
}

TEST(MeshRegistry, AnInheritedMeshIsTakenOnce) {
  MeshRegistry registry;
  registry.add_inherited(mesh_of({"front", 3}, {"a", "b"}, 7));
  EXPECT_FALSE(registry.take_inherited("back"));
  const auto front = registry.take_inherited("front");
  ASSERT_TRUE(front);
  EXPECT_EQ(front->key, (MeshKey{"front", 3}));
  EXPECT_EQ(front->processes.size(), 2u);
  EXPECT_FALSE(registry.take_inherited("front"));
  EXPECT_TRUE(registry.contains({"front", 3})) << "the owner still has it";
}

std::vector<std::string> names_of(const std::vector<MeshProcesses>& meshes) {
  std::vector<std::string> names;
  for (const MeshProcesses& mesh : meshes) names.push_back(mesh.key.name);
  return names;
}

TEST(MeshRegistry, AnInheritedMeshIsReleasedWithItsDescendants) {
  MeshRegistry registry;
  const std::map<std::string, std::string> parents = {
      {"root", ""}, {"kid", "root"}, {"kid2", "kid"}, {"other", ""}, {"orphan", "gone"}};
  for (const auto& [name, parent] : parents) {
    MeshProcesses mesh = mesh_of({name, 1}, {"a"}, 7);
    mesh.parent_mesh = parent;
    registry.add_inherited(mesh);
  }
  EXPECT_THAT(registry.orphans(), ElementsAre("orphan"));
  EXPECT_TRUE(registry.take_inherited("root"));
  EXPECT_THAT(names_of(registry.begin_release_of_children("other")), ElementsAre());
  const auto undone = registry.begin_release_of_children("root");
  EXPECT_THAT(names_of(undone), ElementsAre("kid2", "kid"));
  registry.end_release(undone, true);
  const auto left = registry.begin_release("kid");
  EXPECT_THAT(names_of(left), ElementsAre("kid2", "kid"));
  EXPECT_THAT(registry.inherited_names(), ElementsAre("orphan", "other"));
  // Others can have the name after the release.
  std::thread taking([&] { EXPECT_FALSE(registry.take_inherited("kid2")); });
  for (const MeshProcesses& mesh : left) registry.remove(mesh.key);
  registry.end_release(left);
  taking.join();
}

}  // namespace
}  // namespace weft::actors

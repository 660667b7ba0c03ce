// Commands of a head, and the processes that may give them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "actors/head/cluster_rows.h"
#include "actors/head/head.h"
#include "actors/head/state_store.h"
#include "actors/system/system.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using ::testing::HasSubstr;

HostRegistration offer(const std::string& name, std::int64_t pid) {
  HostRegistration offer;
  offer.name = name;
  offer.devices = 1;
  offer.pid = pid;
  return offer;
}

/// Head that finds a cluster in its state: the hosts a and b, and an owner with the mesh `front` on
/// a. The test plays the agents and the owner.
class HeadCommands : public ::testing::Test {
 protected:
  HeadCommands() {
    using Table = StateStore::Table;
    StateStore store(scratch.path());
    HostRow row{offer("a", 41), agent_a.self()};
    row.offer.has_parent = true;
    store.put(Table::kHosts, "a", encode(row));
    store.put(Table::kHosts, "b", encode(HostRow{offer("b", 42), agent_b.self()}));
    store.put(Table::kOwners, std::to_string(owner.self().id.value()),
              encode(OwnerRow{{"run r", 43, {front}}, owner.self()}));
    MeshRow mesh;
    mesh.request.mesh = front.name;
    mesh.request.shape = MeshShape({{"data", 1}});
    mesh.owner = owner.self().id;
    mesh.places = {{"a", 0}};
    mesh.processes = {{0, {"a", 0}, {ProcessId(10), "front[0]", {}}, 51, "log"}};
    store.put(Table::kMeshes, front.text(), encode(mesh));
    RunHistory(store).start("train", {"a", 3, 60, ""}, "/out");
    store.sync_to_disk();
  }
  void SetUp() override {
    const Address at = system.listen({"127.0.0.1", 0});
    const HeadEvents events{[](const ClusterEvent&) {}, [](const std::string&) {},
                            [](const std::string&) {}};
    own = system.host_with<Head>("head", [&](Context& context) {
      return std::make_unique<Head>(context, HeadConfig{at, scratch.path()}, events);
    });
    const auto head_of = [&](System& caller) {
      return caller.named<Head>(caller.connect(at), "head");
    };
    of_owner = head_of(owner);
    of_a = head_of(agent_a);
    of_b = head_of(agent_b);
    of_stranger = head_of(stranger);
  }
  std::string mesh_state() { return own.call<&Head::status>().get().meshes.at(0).state; }
  std::string user_of_a() { return own.call<&Head::status>().get().hosts.at(0).device_users.at(0); }
  std::size_t num_hosts() { return own.call<&Head::status>().get().hosts.size(); }

  const MeshKey front{"front", 1};
  test::ScratchFolder scratch;
  System system{test::system_options("head")}, owner{test::system_options("owner")},
      agent_a{test::system_options("a")}, agent_b{test::system_options("b")},
      stranger{test::system_options("stranger")};
  ActorRef<Head> own, of_owner, of_a, of_b, of_stranger;
};

TEST_F(HeadCommands, AMeshIsReleasedByItsOwnerOnly) {
  for (const auto& head : {of_stranger, of_a}) {
    const Error error = test::error_of([&] { head.call<&Head::release>(front).get(); });
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_THAT(error.message(), HasSubstr("mesh front (epoch 1) is released by its owner only"));
  }
  EXPECT_EQ(mesh_state(), "running");
  of_stranger.call<&Head::release>(MeshKey{"back", 1}).get();  // unknown mesh
  of_owner.tell<&Head::release>(front);
  (void)of_owner.call<&Head::status>().get();  // comes after the release
  EXPECT_EQ(mesh_state(), "ending");
}

TEST_F(HeadCommands, AMeshIsDescribedByItsOwnerOnly) {
  of_stranger.call<&Head::set_device_descriptions>(MeshDevices{front, {"a lie"}}).get();
  EXPECT_THAT(user_of_a(), ::testing::Not(HasSubstr("a lie")));
  of_owner.call<&Head::set_device_descriptions>(MeshDevices{front, {"cpu"}}).get();
  EXPECT_THAT(user_of_a(), HasSubstr(", cpu"));
}

TEST_F(HeadCommands, ADeathIsReportedByTheAgentOfItsHost) {
  const DeathReport report{front, 0, 0, {}};
  for (const auto& head : {of_stranger, of_b}) head.call<&Head::process_died>(report).get();
  of_a.call<&Head::process_died>(DeathReport{front, 7, 0, {}}).get();  // unknown rank
  EXPECT_EQ(mesh_state(), "running");
  of_a.call<&Head::process_died>(report).get();
  EXPECT_EQ(mesh_state(), "failed");
}

TEST_F(HeadCommands, ADeathIsReportedByTheOwnerOfTheMesh) {
  of_owner.call<&Head::process_died>(DeathReport{front, 0, 0, {}}).get();
  EXPECT_EQ(mesh_state(), "failed");
}

TEST_F(HeadCommands, ADeathOfAnAgentDoesNotRemoveTheNextAgentOfItsName) {
  const auto died = [](const std::string& host, std::int64_t pid) {
    HostDeath death{host, {}};
    death.evidence.pid = pid;
    return death;
  };
  of_stranger.call<&Head::host_died>(died("a", 40)).get();
  EXPECT_EQ(num_hosts(), 2u);
  of_stranger.call<&Head::host_died>(died("b", 42)).get();  // b has no parent
  EXPECT_EQ(num_hosts(), 2u);
  of_stranger.call<&Head::host_died>(died("a", 41)).get();
  EXPECT_EQ(num_hosts(), 1u);
}

TEST_F(HeadCommands, TheEndOfADetachedRunIsReportedByTheAgentThatStartedIt) {
  DetachedRunExit end{"a", 3, {}};
  end.evidence.has_parent_report = true;
  end.evidence.status = 1;
  const auto state = [&] { return own.call<&Head::run>(std::uint64_t{1}).get().state; };
  for (const auto& head : {of_stranger, of_b}) head.call<&Head::detached_ended>(end).get();
  EXPECT_EQ(state(), RunState::kStarting);
  of_a.call<&Head::detached_ended>(end).get();
  EXPECT_EQ(state(), RunState::kFailed);
}

}  // namespace
}  // namespace weft::actors

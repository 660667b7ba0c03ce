// Actors that outlive runs, in a cluster whose hosts are missing.
#include "actors/cluster/keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "actors/head/cluster_rows.h"
#include "actors/head/head.h"
#include "actors/head/state_store.h"
#include "actors/system/system.h"
#include "tests/support/eventually.h"
#include "tests/support/log_lines.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using ::testing::HasSubstr;

SystemOptions head_options() {
  SystemOptions options = test::system_options("head");
  options.is_head = true;
  return options;
}

SpawnDescription on_host(const std::string& host, const std::string& name) {
  SpawnDescription actors;
  actors.mesh.mesh = name;
  actors.interface = {"test.counter", 1, 7};
  actors.mesh.hosts = {host};
  return actors;
}
SpawnDescription on_host_a(const std::string& name) { return on_host("a", name); }

/// Head that was started again, with the actor "hits" in its state. Its host "a" is missing. The
/// former head died before it recorded the actor "unrecorded", whose process is dead, like those of
/// its child "kid" and of "orphan", whose parent has ended.
class KeeperTest : public ::testing::Test {
 protected:
  /// `has_lost_host`: the state also has the actor "first" on the host "b", which does not answer,
  /// and one that is refused at once.
  explicit KeeperTest(bool has_lost_host = false) {
    using Table = StateStore::Table;
    {
      StateStore store(scratch.path());
      store.put(Table::kKeptActors, "damaged", {std::byte{9}});
      store.put(Table::kKeptActors, "hits", encode(on_host_a("hits")));
      if (has_lost_host) {
        HostRow row;
        row.offer.name = "b";
        row.agent = {ProcessId(9), "agent", {"127.0.0.1", 1}};
        store.put(Table::kHosts, "b", encode(row));
        store.put(Table::kKeptActors, "first", encode(on_host("b", "first")));
        store.put(Table::kKeptActors, "second", encode(on_host("b", kSharedProcessName)));
      }
      const ProcessRef former{ProcessId(7), kKeeperName, {}};
      OwnerRow owner{{kKeeperName, 42}, former};
      owner.offer.is_keeper = true;
      store.put(Table::kOwners, "7", encode(owner));
      std::uint32_t device = 0;
      for (const auto& [name, parent] : std::map<std::string, std::string>{
               {"unrecorded", ""}, {"kid", "unrecorded"}, {"orphan", "ended"}}) {
        MeshRow mesh;
        mesh.request.mesh = name;
        mesh.request.parent_mesh = parent;
        mesh.owner = former.id;
        mesh.places = {{"a", device++}};
        mesh.processes = {{0, mesh.places[0], {ProcessId(8), "device", {}}, 51, "log"}};
        ProcessFailure death;
        death.mesh = name;
        death.epoch = 1;
        mesh.incident = Incident{name, 1, {death}, 0};
        mesh.dead = {0};
        store.put(Table::kMeshes, MeshKey{name, 1}.text(), encode(mesh));
      }
      store.sync_to_disk();
    }
    const HeadEvents events{[](const ClusterEvent&) {}, [](const std::string&) {},
                            [](const std::string&) {}};
    system.host_with<Head>("head", [&](Context& context) {
      return std::make_unique<Head>(context, HeadConfig{at, scratch.path()}, events);
    });
    head = an_operator.named<Head>(an_operator.connect(at), "head");
    SystemOptions options = test::system_options("cluster");
    options.log = lines.log();
    keeper.emplace(at, options);
  }
  ~KeeperTest() override {
    keeper->stop();
    if (resuming.joinable()) resuming.join();
  }
  void resume() {
    resuming = std::thread([this] { keeper->resume(); });
  }
  Future<NamedActors> spawn(const std::string& name) {
    const ProcessRef process = head.call<&Head::keeper>().get();
    return an_operator.named<KeeperActor>(process, "keeper")
        .call<&KeeperActor::spawn>(on_host_a(name));
  }
  Error problem_of_spawn(const std::string& name) {
    return test::error_of([&] { (void)spawn(name).get(); });
  }

  test::ScratchFolder scratch;
  test::LogLines lines;
  System system{head_options()}, an_operator{test::system_options("operator")};
  const Address at = system.listen({"127.0.0.1", 0});
  ActorRef<Head> head;
  std::optional<Keeper> keeper;
  std::thread resuming;
};

TEST_F(KeeperTest, ANameWhoseActorsWaitForTheirRestartIsTakenUntilAnOperatorStopsThem) {
  resume();
  const Error taken = problem_of_spawn("hits");
  EXPECT_EQ(taken.code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(taken.message(), HasSubstr("cluster has actors named 'hits' already"));
  EXPECT_THAT(problem_of_spawn("other").message(), HasSubstr("needs host 'a'"));

  head.call<&Head::stop_actors>("cluster/hits").get();
  EXPECT_THAT(problem_of_spawn("hits").message(), HasSubstr("needs host 'a'"));
  const Error unknown = test::error_of([&] { head.call<&Head::stop_actors>("hits").get(); });
  EXPECT_EQ(unknown.code(), ErrorCode::kNotFound);
}

TEST_F(KeeperTest, SpawnsThatWaitForTheSavedStateEndWithTheKeeper) {
  auto called = spawn("other");
  Error problem(ErrorCode::kInternal, "");
  std::thread waiting(
      [&] { problem = test::error_of([&] { (void)keeper->spawn(on_host_a("other")); }); });
  keeper->stop();
  waiting.join();
  EXPECT_EQ(problem.code(), ErrorCode::kCancelled);
  keeper.reset();
  (void)test::error_of([&] { (void)called.get(); });
  // The next keeper begins with the same state.
  keeper.emplace(at, test::system_options("cluster"));
  resume();
  EXPECT_EQ(problem_of_spawn("hits").code(), ErrorCode::kAlreadyExists);
}

TEST_F(KeeperTest, ReleasesActorsThatItsPredecessorDidNotRecordAndTheirChildren) {
  const auto meshes = [&] {
    std::vector<std::string> names;
    for (const MeshStatus& mesh : head.call<&Head::status>().get().meshes)
      names.push_back(mesh.key.name);
    return names;
  };
  EXPECT_TRUE(test::eventually([&] {
    return meshes() == std::vector<std::string>{"kid", "unrecorded"};
  })) << "a child without a parent ends at once";
  resume();
  // It does not take over their processes.
  EXPECT_THAT(problem_of_spawn("unrecorded").message(), HasSubstr("needs host 'a'"));
  EXPECT_THAT(meshes(), ::testing::IsEmpty());
  // The failure of one mesh does not prevent others.
  EXPECT_THAT(problem_of_spawn("other").message(), HasSubstr("needs host 'a'"));
}

class KeeperOfALostHost : public KeeperTest {
 protected:
  KeeperOfALostHost() : KeeperTest(true) {}
};

TEST_F(KeeperOfALostHost, DoesNotLetOtherActorsWaitForIt) {
  resume();
  EXPECT_TRUE(lines.has("cannot be named"));
  EXPECT_EQ(lines.text().find("first of the cluster"), std::string::npos)
      << "it waits for its host";
}

TEST_F(KeeperTest, TheNameOfTheKeeperIsNotThatOfARun) {
  (void)head.call<&Head::register_owner>(OwnerRegistration{kKeeperName, 43}).get();
  const auto runs = head.call<&Head::status>().get().runs;
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].name, "cluster#2");
}

}  // namespace
}  // namespace weft::actors

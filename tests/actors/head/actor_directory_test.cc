// Names of actors, as owners publish them and others find them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
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

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// Head with the runs "r" and "s". The test plays their drivers, and a device process of r.
class ActorDirectoryTest : public ::testing::Test {
 protected:
  ActorDirectoryTest() {
    using Table = StateStore::Table;
    StateStore store(scratch.path());
    MeshRow mesh;
    mesh.request.mesh = "front";
    mesh.request.shape = MeshShape({{"data", 1}});
    mesh.owner = r.self().id;
    mesh.places = {{"a", 0}};
    mesh.processes = {{0, {"a", 0}, device.self(), 51, "log"}};
    store.put(Table::kMeshes, MeshKey{"front", 1}.text(), encode(mesh));
    for (System* driver : {&r, &s})
      store.put(
          Table::kOwners, std::to_string(driver->self().id.value()),
          encode(OwnerRow{{"run " + driver->self().name, 43, {{"front", 1}}}, driver->self()}));
    store.sync_to_disk();
  }
  void SetUp() override { start_head(); }
  void start_head() {
    system = std::make_unique<System>(test::system_options("head"));
    const Address at = system->listen({"127.0.0.1", 0});
    const HeadEvents events{[](const ClusterEvent&) {}, [](const std::string&) {},
                            [](const std::string&) {}};
    system->host_with<Head>("head", [&](Context& context) {
      return std::make_unique<Head>(context, HeadConfig{at, scratch.path()}, events);
    });
    const auto head_of = [&](System& caller) {
      return caller.named<Head>(caller.connect(at), "head");
    };
    of_r = head_of(r);
    of_s = head_of(s);
    of_device = head_of(device);
    of_operator = head_of(an_operator);
    for (const auto& head : {of_r, of_s})
      (void)head.call<&Head::register_owner>(OwnerRegistration{"", 43, {{"front", 1}}}).get();
  }
  /// Actors of a mesh without axes, at process `process`.
  static NamedActors one(const std::string& name, std::uint64_t process) {
    return {name,
            {"test.counter", 1, 7},
            MeshShape(),
            {{{ProcessId(process), "p", {}}, ActorId(3), name, {}}}};
  }
  static std::uint64_t found(const ActorRef<Head>& head, const std::string& name) {
    return head.call<&Head::find_actors>(FindActors{name, 0})
        .get()
        .addresses.at(0)
        .process.id.value();
  }
  static Error problem_of(const ActorRef<Head>& head, const std::string& name) {
    return test::error_of([&] { (void)found(head, name); });
  }

  test::ScratchFolder scratch;
  std::unique_ptr<System> system;
  System r{test::system_options("r")}, s{test::system_options("s")},
      device{test::system_options("device")}, an_operator{test::system_options("operator")};
  ActorRef<Head> of_r, of_s, of_device, of_operator;
};

TEST_F(ActorDirectoryTest, ANameIsThatOfTheCallersRun) {
  of_r.call<&Head::publish_actors>(one("hits", 1)).get();
  of_s.call<&Head::publish_actors>(one("hits", 2)).get();
  EXPECT_EQ(found(of_r, "hits"), 1u);
  EXPECT_EQ(found(of_s, "hits"), 2u);
  EXPECT_EQ(found(of_device, "hits"), 1u) << "a device process belongs to the run of its mesh";
  EXPECT_EQ(found(of_r, "s/hits"), 2u);
  EXPECT_EQ(found(of_operator, "r/hits"), 1u);
  const Error several = problem_of(of_operator, "hits");
  EXPECT_EQ(several.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(several.message(), HasSubstr("several runs have actors named 'hits'"));
}

TEST_F(ActorDirectoryTest, AnUnknownNameFailsWithTheNearest) {
  of_s.call<&Head::publish_actors>(one("counter", 2)).get();
  const Error unknown = problem_of(of_r, "s/countr");
  EXPECT_EQ(unknown.code(), ErrorCode::kNotFound);
  EXPECT_THAT(unknown.message(),
              HasSubstr("no actor is named 's/countr' in run r; did you mean 's/counter'?"));
  EXPECT_EQ(problem_of(of_r, "counter").code(), ErrorCode::kNotFound)
      << "a run must name another run";
  EXPECT_EQ(found(of_operator, "counter"), 2u);
}

TEST_F(ActorDirectoryTest, ACallWaitsForAName) {
  auto waiting = of_device.within(kNoDeadline)
                     .call<&Head::find_actors>(FindActors{"late", Nanoseconds(60s).count()});
  auto cancelled = of_r.call<&Head::find_actors>(FindActors{"late", Nanoseconds(60s).count()});
  cancelled.cancel();
  of_r.call<&Head::publish_actors>(one("late", 5)).get();
  EXPECT_EQ(waiting.get().addresses.at(0).process.id, ProcessId(5));
}

TEST_F(ActorDirectoryTest, ANameEndsWithItsOwnerOrByItsWill) {
  of_r.call<&Head::publish_actors>(one("hits", 1)).get();
  of_s.call<&Head::withdraw_actors>("hits").get();
  EXPECT_EQ(found(of_r, "hits"), 1u) << "another run cannot remove it";
  of_r.call<&Head::withdraw_actors>("hits").get();
  EXPECT_EQ(problem_of(of_r, "hits").code(), ErrorCode::kNotFound);
  of_operator.call<&Head::publish_actors>(one("stray", 9)).get();
  EXPECT_EQ(problem_of(of_operator, "stray").code(), ErrorCode::kNotFound)
      << "only owners have names";
}

TEST_F(ActorDirectoryTest, FormerAddressesLeadToThePresentOneAlsoAfterARestartOfTheHead) {
  for (const std::uint64_t process : {1, 2, 3})
    of_r.call<&Head::publish_actors>(one("hits", process)).get();
  const auto where = [&](std::uint64_t process) {
    return of_s.call<&Head::locate_actor>(LocateActor{one("hits", process).addresses.at(0), 0})
        .get()
        .process.id.value();
  };
  EXPECT_EQ(where(1), 3u);
  system.reset();
  start_head();
  EXPECT_EQ(found(of_r, "hits"), 3u) << "names survive";
  EXPECT_EQ(where(1), 3u);
  EXPECT_EQ(where(3), 3u) << "nobody has restarted it";
  const Error gone = test::error_of([&] { (void)where(4); });
  EXPECT_EQ(gone.code(), ErrorCode::kNotFound);
  EXPECT_THAT(gone.message(), HasSubstr("nobody restarts it"));
}

TEST_F(ActorDirectoryTest, StatusesNameRunHostAndState) {
  NamedActors actors = one("front", 0);
  actors.addresses[0].process = device.self();
  of_r.call<&Head::publish_actors>(actors).get();
  of_s.call<&Head::publish_actors>(one("gone", 8)).get();
  const auto list = of_operator.call<&Head::actors>().get();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].run, "r");
  EXPECT_EQ(list[0].label, "front");
  EXPECT_EQ(list[0].interface, "test.counter");
  EXPECT_EQ(list[0].host, "a");
  EXPECT_EQ(list[0].pid, 51);
  EXPECT_EQ(list[0].state, "running");
  EXPECT_EQ(list[1].run, "s");
  EXPECT_EQ(list[1].state, "dead");
}

}  // namespace
}  // namespace weft::actors

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
    const Address at = address = system->listen({"127.0.0.1", 0});
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
  static void publish(const ActorRef<Head>& head, const NamedActors& actors) {
    head.call<&Head::publish_actors>(PublishActors{{actors}, {}}).get();
  }
  static void withdraw(const ActorRef<Head>& head, const std::string& name) {
    head.call<&Head::publish_actors>(PublishActors{{}, {name}}).get();
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
  Address address;
  System r{test::system_options("r")}, s{test::system_options("s")},
      device{test::system_options("device")}, an_operator{test::system_options("operator")};
  ActorRef<Head> of_r, of_s, of_device, of_operator;
};

TEST_F(ActorDirectoryTest, ANameIsThatOfTheCallersRun) {
  publish(of_r, one("hits", 1));
  publish(of_s, one("hits", 2));
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
  publish(of_s, one("counter", 2));
  const Error unknown = problem_of(of_r, "s/countr");
  EXPECT_EQ(unknown.code(), ErrorCode::kNotFound);
  EXPECT_THAT(unknown.message(),
              HasSubstr("no actor is named 's/countr' in run r; did you mean 's/counter'?"));
  EXPECT_EQ(problem_of(of_r, "counter").code(), ErrorCode::kNotFound)
      << "a run must name another run";
  EXPECT_EQ(found(of_operator, "counter"), 2u);
  EXPECT_THAT(problem_of(of_operator, "countr").message(), HasSubstr("did you mean 'counter'?"));
}

TEST_F(ActorDirectoryTest, ACallWaitsForAName) {
  auto waiting = of_device.within(kNoDeadline)
                     .call<&Head::find_actors>(FindActors{"late", Nanoseconds(60s).count()});
  auto cancelled = of_r.call<&Head::find_actors>(FindActors{"late", Nanoseconds(60s).count()});
  cancelled.cancel();
  publish(of_r, one("late", 5));
  EXPECT_EQ(waiting.get().addresses.at(0).process.id, ProcessId(5));
}

TEST_F(ActorDirectoryTest, ANameEndsWithItsOwnerOrByItsWill) {
  publish(of_r, one("hits", 1));
  withdraw(of_s, "hits");
  EXPECT_EQ(found(of_r, "hits"), 1u) << "another run cannot remove it";
  withdraw(of_r, "hits");
  EXPECT_EQ(problem_of(of_r, "hits").code(), ErrorCode::kNotFound);
  const Error stranger = test::error_of([&] { publish(of_operator, one("stray", 9)); });
  EXPECT_EQ(stranger.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(stranger.message(), HasSubstr("only a program that has registered as an owner"));
  EXPECT_EQ(problem_of(of_operator, "stray").code(), ErrorCode::kNotFound)
      << "only owners have names";
}

TEST_F(ActorDirectoryTest, AListOfAllNamesReplacesTheOthersOfItsOwner) {
  publish(of_s, one("hits", 2));
  for (const char* name : {"hits", "stays", "front"}) publish(of_r, one(name, 1));
  of_r.call<&Head::publish_actors>(PublishActors{{one("stays", 4)}, {}, true}).get();
  EXPECT_EQ(problem_of(of_r, "hits").code(), ErrorCode::kNotFound);
  EXPECT_EQ(found(of_r, "stays"), 4u);
  EXPECT_EQ(found(of_r, "front"), 1u) << "r has this mesh, and has not spawned it again yet";
  EXPECT_EQ(found(of_s, "hits"), 2u) << "another owner's";
  system.reset();
  start_head();
  EXPECT_EQ(problem_of(of_r, "hits").code(), ErrorCode::kNotFound);
  EXPECT_EQ(found(of_r, "stays"), 4u);
}

TEST_F(ActorDirectoryTest, ANameThatWasWithdrawnAndPublishedAgainHasNoFormerActors) {
  publish(of_r, one("hits", 1));
  of_r.call<&Head::publish_actors>(PublishActors{{one("hits", 2)}, {"hits"}}).get();
  EXPECT_EQ(found(of_r, "hits"), 2u);
  const LocateActor first{one("hits", 1).addresses.at(0), 0};
  EXPECT_EQ(test::error_of([&] { (void)of_s.call<&Head::locate_actor>(first).get(); }).code(),
            ErrorCode::kNotFound);
}

TEST_F(ActorDirectoryTest, TextThatIsNoNameIsRefused) {
  const std::string long_name(101, 'x');
  for (const std::string& name : {std::string("s/hits"), std::string(), long_name}) {
    const Error refused = test::error_of([&] { publish(of_r, one(name, 1)); });
    EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument) << name;
    EXPECT_THAT(refused.message(), HasSubstr("the name of actors: expected a name of at most 100"));
  }
  EXPECT_TRUE(of_operator.call<&Head::actors>().get().empty());
  const std::string huge(10'000'000, 'x');
  for (const std::string& name : {"s/" + long_name, huge, huge + "/hits", std::string("/hits")}) {
    EXPECT_EQ(problem_of(of_r, name).code(), ErrorCode::kInvalidArgument);
    const Error stop = test::error_of([&] { of_r.call<&Head::stop_actors>(name).get(); });
    EXPECT_EQ(stop.code(), ErrorCode::kInvalidArgument);
    EXPECT_LT(stop.message().size(), 1000u);
  }
  const PublishActors mixed{{one("bad name", 1), one("good", 2)}, {}};
  EXPECT_EQ(test::error_of([&] { of_r.call<&Head::publish_actors>(mixed).get(); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(found(of_r, "good"), 2u) << "a bad name does not keep others out";
}

TEST_F(ActorDirectoryTest, ALocateWaitsForTheRestartOfItsActor) {
  publish(of_r, one("hits", 1));
  publish(of_r, one("other", 2));
  const auto locate = [&](const std::string& name, std::uint64_t process) {
    return of_s.within(kNoDeadline)
        .call<&Head::locate_actor>(
            LocateActor{one(name, process).addresses.at(0), Nanoseconds(60s).count()});
  };
  auto restarted = locate("hits", 1);
  auto ended = locate("other", 2);
  auto timed_out = of_s.call<&Head::locate_actor>(
      LocateActor{one("hits", 1).addresses.at(0), Nanoseconds(20ms).count()});
  EXPECT_EQ(timed_out.get().process.id, ProcessId(1)) << "it is still there";
  publish(of_r, one("hits", 3));
  EXPECT_EQ(restarted.get().process.id, ProcessId(3));
  withdraw(of_r, "other");
  EXPECT_EQ(test::error_of([&] { (void)ended.get(); }).code(), ErrorCode::kNotFound);
}

TEST_F(ActorDirectoryTest, FormerAddressesLeadToThePresentOneAlsoAfterARestartOfTheHead) {
  for (const std::uint64_t process : {1, 2, 3}) publish(of_r, one("hits", process));
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

TEST_F(ActorDirectoryTest, TheNextDriverOfARunTakesOverItsNames) {
  System first(test::system_options("first")), next(test::system_options("next"));
  OwnerRegistration driver{"run q", 50};
  driver.run = "q-1";
  const auto register_driver = [&](System& process) {
    auto head = process.named<Head>(process.connect(address), "head");
    (void)head.call<&Head::register_owner>(driver).get();
    return head;
  };
  const auto of_first = register_driver(first);
  for (const std::uint64_t process : {7, 8}) publish(of_first, one("hits", process));
  driver.replaces_driver = true;
  const auto of_next = register_driver(next);
  EXPECT_EQ(found(of_next, "hits"), 8u);
  const auto check = [&] {
    EXPECT_EQ(found(of_s, "q/hits"), 8u) << "the run keeps its name, too";
    const LocateActor former{one("hits", 7).addresses.at(0), 0};
    EXPECT_EQ(of_s.call<&Head::locate_actor>(former).get().process.id, ProcessId(8));
    EXPECT_EQ(of_operator.call<&Head::actors>().get().size(), 1u);
  };
  check();
  system.reset();
  start_head();
  check();
}

TEST_F(ActorDirectoryTest, KnowsWhichActorsHaveEndedAlsoAfterARestartOfTheHead) {
  NamedActors hits = one("hits", 7);
  publish(of_r, hits);
  hits.ended = {0};
  publish(of_r, hits);
  const auto check = [&] {
    EXPECT_EQ(of_r.call<&Head::find_actors>(FindActors{"hits", 0}).get().ended, hits.ended);
    EXPECT_EQ(of_operator.call<&Head::actors>().get().at(0).state, "ended");
  };
  check();
  system.reset();
  start_head();
  check();
  hits.ended = {1};
  EXPECT_EQ(test::error_of([&] { publish(of_r, hits); }).code(), ErrorCode::kDataLoss);
}

TEST_F(ActorDirectoryTest, StatusesNameRunHostAndState) {
  NamedActors actors = one("front", 0);
  actors.addresses[0].process = device.self();
  publish(of_r, actors);
  publish(of_s, one("gone", 8));
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

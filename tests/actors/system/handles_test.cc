// Handles of actors and meshes as arguments, results and fields.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/system/system.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using test::error_of;
using test::throws_error;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Counts, and passes handles of counters on.
class Counter final {
 public:
  /// Handles wherever a value can be.
  struct Team {
    ActorRef<Counter> first;
    std::vector<ActorRef<Counter>> others;
    std::map<std::string, ActorRef<Counter>> by_name;
    std::optional<MeshRef<Counter>> mesh;
    static constexpr auto fields =
        weft::fields(&Team::first, &Team::others, &Team::by_name, &Team::mesh);
  };

  explicit Counter(Context& context) : context_(context) {}

  int add(int number) { return sum_ += number; }
  ActorRef<Counter> self() const { return context_.handle<Counter>(); }
  task<int> add_to(ActorRef<Counter> other, int number) {
    if (!other) co_return -1;
    const int sum = co_await other.call<&Counter::add>(number);
    co_return sum;
  }
  task<std::vector<int>> add_to_all(MeshRef<Counter> mesh, int number) {
    std::vector<int> sums = co_await mesh.call<&Counter::add>(number);
    co_return sums;
  }
  /// Lets the first counter of `chain` do the same with the rest, and adds to the last one.
  task<int> pass_on(std::vector<ActorRef<Counter>> chain, int number) {
    if (chain.empty()) co_return add(number);
    const ActorRef<Counter> next = chain.front();
    chain.erase(chain.begin());
    const int sum = co_await next.call<&Counter::pass_on>(chain, number);
    co_return sum;
  }
  task<int> add_to_team(Team team) {
    int sum = co_await team.first.call<&Counter::add>(1);
    for (const ActorRef<Counter>& other : team.others) {
      const int part = co_await other.call<&Counter::add>(10);
      sum += part;
    }
    for (const auto& [name, other] : team.by_name) {
      const int part = co_await other.call<&Counter::add>(100);
      sum += part;
    }
    co_return sum + static_cast<int>(team.mesh ? team.mesh->size() : 0) * 1000;
  }
  Team team() const { return {context_.handle<Counter>(), {context_.handle<Counter>()}, {}, {}}; }

  static constexpr auto endpoints = interface<"test.counter", 1>(
      on<&Counter::add>("add"), on<&Counter::self>("self"), on<&Counter::add_to>("add_to"),
      on<&Counter::add_to_all>("add_to_all"), on<&Counter::pass_on>("pass_on"),
      on<&Counter::add_to_team>("add_to_team"), on<&Counter::team>("team"));

 private:
  Context& context_;
  int sum_ = 0;
};

/// Counter as another program declares it: a later version.
struct LaterCounter {
  explicit LaterCounter(Context&) {}
  int add(int number) { return number; }
  static constexpr auto endpoints = interface<"test.counter", 2>(on<&LaterCounter::add>("add"));
};

/// Actor of another class.
struct Visitor {
  explicit Visitor(Context&) {}
  void wave() {}
  static constexpr auto endpoints = interface<"test.visitor", 1>(on<&Visitor::wave>("wave"));
};

/// Takes any handle, as another program that declares classes differently would.
struct Collector {
  explicit Collector(Context&) {}
  int take(ActorRef<LaterCounter>) { return 1; }
  int greet(MeshRef<Visitor>) { return 1; }
  static constexpr auto endpoints =
      interface<"test.collector", 1>(on<&Collector::take>("take"), on<&Collector::greet>("greet"));
};
/// Collector by the same name, fingerprints included, with other classes behind the handles.
struct SameCollector {
  int take(ActorRef<Counter>) { return 1; }
  int greet(MeshRef<Counter>) { return 1; }
  static constexpr auto endpoints = interface<"test.collector", 1>(
      on<&SameCollector::take>("take"), on<&SameCollector::greet>("greet"));
};

/// Process with a counter.
struct Worker {
  explicit Worker(const std::string& name) : system(test::system_options(name)) {
    system.provide<Counter>();
    system.listen({"127.0.0.1", 0});
    counter = system.host<Counter>("counter");
  }
  System system;
  ActorRef<Counter> counter;
};

/// Driver and five workers, of which the driver alone knows all.
struct FiveWorkers {
  System driver{test::system_options("driver")};
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<ActorRef<Counter>> counters;
  FiveWorkers() {
    for (int i = 0; i < 5; ++i) {
      workers.push_back(std::make_unique<Worker>("worker" + std::to_string(i)));
      counters.push_back(
          driver.named<Counter>(driver.connect(workers.back()->system.self().address), "counter"));
    }
  }
};

TEST(Handles, TravelAsArgumentsAndTheReceiverConnectsWhenItCalls) {
  FiveWorkers cluster;
  EXPECT_EQ(cluster.workers[0]->system.peers().size(), 1u) << "it knows the driver only";
  EXPECT_EQ(cluster.counters[0].call<&Counter::add_to>(cluster.counters[1], 5).get(), 5);
  EXPECT_EQ(cluster.counters[1].call<&Counter::add>(2).get(), 7);
  EXPECT_EQ(cluster.counters[0].call<&Counter::add_to>(ActorRef<Counter>(), 5).get(), -1)
      << "an empty handle stays empty";
}

TEST(Handles, PassThroughFiveProcessesManyTimesWithoutALostOrDoubledCall) {
  FiveWorkers cluster;
  const std::vector<ActorRef<Counter>> rest(cluster.counters.begin() + 1, cluster.counters.end());
  for (int i = 1; i <= 100; ++i)
    EXPECT_EQ(cluster.counters[0].call<&Counter::pass_on>(rest, 1).get(), i);
}

TEST(Handles, AreResultsFieldsAndMembersOfContainers) {
  FiveWorkers cluster;
  const ActorRef<Counter> third = cluster.counters[2].call<&Counter::self>().get();
  EXPECT_EQ(third.address(), cluster.counters[2].call<&Counter::self>().get().address());
  EXPECT_EQ(third.call<&Counter::add>(3).get(), 3);
  const Counter::Team team{third,
                           {cluster.counters[1], cluster.counters[3]},
                           {{"last", cluster.counters[4]}},
                           std::nullopt};
  EXPECT_EQ(cluster.counters[0].call<&Counter::add_to_team>(team).get(), 4 + 10 + 10 + 100);
  const Counter::Team answer = cluster.counters[3].call<&Counter::team>().get();
  EXPECT_EQ(answer.others.at(0).call<&Counter::add>(0).get(), 10);
}

TEST(Handles, OfMeshesAndSlicesTravel) {
  FiveWorkers cluster;
  std::vector<ProcessRef> processes;
  for (const auto& worker : cluster.workers) processes.push_back(worker->system.self());
  processes.pop_back();
  const auto mesh =
      cluster.driver.spawn_mesh<Counter>("back", MeshShape{{"row", 2}, {"column", 2}}, processes);
  const ActorRef<Counter>& outside = cluster.counters[4];
  EXPECT_EQ(outside.call<&Counter::add_to_all>(mesh.ref(), 1).get(),
            (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(outside.call<&Counter::add_to_all>(mesh.slice({{"row", 1}}), 1).get(),
            (std::vector<int>{2, 2}));
  EXPECT_EQ(mesh.call<&Counter::add>(0).get(), (std::vector<int>{1, 1, 2, 2}));
  const Counter::Team team{outside, {}, {}, mesh.ref()};
  EXPECT_EQ(cluster.counters[0].call<&Counter::add_to_team>(team).get(), 4001);
}

TEST(Handles, OfADriverThatListensReachItsActors) {
  FiveWorkers cluster;
  const ActorRef<Counter> own = cluster.driver.host<Counter>("own");
  cluster.driver.listen({"127.0.0.1", 0});
  // The second worker gets the handle from the first one and has to connect.
  EXPECT_EQ(
      cluster.counters[0].call<&Counter::pass_on>(std::vector{cluster.counters[1], own}, 4).get(),
      4);
}

TEST(Handles, ToAProcessThatNeitherListensNorIsConnectedSaySo) {
  FiveWorkers cluster;
  System silent(test::system_options("silent"));
  const ActorRef<Counter> counter = silent.host<Counter>("counter");
  const auto first =
      silent.named<Counter>(silent.connect(cluster.workers[0]->system.self().address), "counter");
  EXPECT_EQ(first.call<&Counter::add_to>(counter, 1).get(), 1) << "over the connection";
  EXPECT_THAT(
      [&] {
        (void)first.call<&Counter::pass_on>(std::vector{cluster.counters[1], counter}, 1).get();
      },
      throws_error(ErrorCode::kUnavailable, "silent"));
}

TEST(Handles, ToAnActorThatHasEndedFailWithItsName) {
  FiveWorkers cluster;
  const ActorRef<Counter> gone = cluster.counters[1];
  cluster.workers[1].reset();
  EXPECT_THAT([&] { (void)cluster.counters[0].call<&Counter::add_to>(gone, 1).get(); },
              throws_error(ErrorCode::kUnavailable, "worker1"));
}

TEST(Handles, OfAnotherVersionOrClassAreRefusedWithTheRemedy) {
  FiveWorkers cluster;
  System other(test::system_options("other"));
  (void)other.host<Collector>("collector");
  const auto collector = cluster.driver.named<SameCollector>(
      cluster.driver.connect(other.listen({"127.0.0.1", 0})), "collector");
  const Error version =
      error_of([&] { (void)collector.call<&SameCollector::take>(cluster.counters[0]).get(); });
  EXPECT_EQ(version.code(), ErrorCode::kIncompatible);
  EXPECT_EQ(version.actor(), "collector");
  EXPECT_THAT(version.message(),
              AllOf(HasSubstr("handle of counter has interface 'test.counter' version 1"),
                    HasSubstr("knows version 2"), HasSubstr("build both from the same source")));
  const MeshRef<Counter> mesh(
      cluster.driver, "back", MeshShape(),
      {std::make_shared<const ActorAddress>(cluster.counters[0].address())});
  EXPECT_THAT([&] { (void)collector.call<&SameCollector::greet>(mesh).get(); },
              throws_error(ErrorCode::kIncompatible,
                           "a handle of back with interface 'test.counter' came in place of one "
                           "with interface 'test.visitor'"));
}

TEST(Handles, AreReadByCallsOnly) {
  Worker worker("worker0");
  const std::vector<std::byte> bytes = encode(worker.counter);
  EXPECT_THAT([&] { (void)decode<ActorRef<Counter>>(bytes); },
              throws_error(ErrorCode::kInvalidArgument, "only a call can carry"));
  EXPECT_EQ(
      decode<ActorRef<Counter>>(bytes, &worker.system).address(),
      worker.system.ref<Counter>(worker.counter.call<&Counter::self>().get().address()).address());
}

TEST(Handles, WhoseMeshLacksAnActorAreDamaged) {
  Worker worker("worker0");
  const auto address = std::make_shared<const ActorAddress>(worker.counter.address());
  const MeshRef<Counter> mesh(worker.system, "back", MeshShape{{"row", 2}}, {address});
  EXPECT_THAT([&] { (void)decode<MeshRef<Counter>>(encode(mesh), &worker.system); },
              throws_error(ErrorCode::kDataLoss, "more or fewer actors than ranks"));
}

}  // namespace
}  // namespace weft::actors

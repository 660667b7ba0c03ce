// Context::spawn() with an owner that is a fake: what arrives there, and when.
#include "actors/cluster/context_spawn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "actors/cluster/described_spawn.h"
#include "actors/cluster/forwarding_spawner.h"
#include "tests/support/eventually.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::throws_error;
using ::testing::HasSubstr;

class Child final {
 public:
  using Arguments = std::tuple<int>;
  Child(Context&, int number) : number_(number) {}
  int number() const { return number_; }
  static constexpr auto endpoints = interface<"test.child", 1>(on<&Child::number>("number"));

 private:
  const int number_;
};

/// Spawns children.
class Parent final {
 public:
  explicit Parent(Context& context) : context_(context) {}
  task<int> spawn_one(std::string name) {
    auto spawning = context_.spawn<Child>(name, {.restarts = 3}, 5);
    const auto child = co_await spawning;
    const int number = co_await child.call<&Child::number>();
    co_return number;
  }
  task<std::int64_t> spawn_mesh(std::string name) {
    auto spawning = context_.spawn<Child>(
        name, {{"worker", 2}}, {.place = spread().label("zone", "a"), .needs = {.cpus = 0.5}}, 5);
    const auto team = co_await spawning;
    co_return team.size();
  }
  /// Decides on the thread of this actor.
  task<void> spawn_deciding(std::string name) {
    SpawnOptions options;
    options.decide = [this](const Incident& incident) {
      decided_ = incident.mesh;
      if (incident.epoch == 2) throw Error(ErrorCode::kInternal, "undecided");
      return rest_for_one;
    };
    auto spawning = context_.spawn<Child>(name, options, 5);
    co_await spawning;
  }
  task<void> stop(std::string name) { co_await context_.stop(name); }
  std::string decided() const { return decided_; }
  OnFailure on_failure(const Incident&) { return one_for_one; }
  static constexpr auto endpoints = interface<"test.parent", 1>(
      on<&Parent::spawn_one>("spawn_one"), on<&Parent::spawn_mesh>("spawn_mesh"),
      on<&Parent::spawn_deciding>("spawn_deciding"), on<&Parent::stop>("stop"),
      on<&Parent::decided>("decided"), on<&Parent::on_failure>("on_failure", urgent));

 private:
  Context& context_;
  std::string decided_;
};

/// Requests that an owner has got.
struct Requests {
  mutable std::mutex mutex;
  std::vector<ChildSpawn> spawns;
  std::vector<std::string> stops;

  ChildSpawn last() const {
    const std::lock_guard lock(mutex);
    return spawns.back();
  }
  std::size_t count() const {
    const std::lock_guard lock(mutex);
    return spawns.size();
  }
};

/// Spawner that answers with existing actors.
class FakeOwner final : public Spawner {
 public:
  FakeOwner(Requests& requests, ActorAddress child) : requests_(requests), child_(child) {}
  task<SpawnedChild> spawn(ChildSpawn request) override {
    const std::lock_guard lock(requests_.mutex);
    requests_.spawns.push_back(request);
    if (request.actors.name() == "taken")
      throw_error(ErrorCode::kAlreadyExists, "r has actors named 'taken' already");
    const std::vector<ActorAddress> children(
        static_cast<std::size_t>(request.actors.mesh.shape.size()), child_);
    co_return SpawnedChild{
        {request.actors.name(), request.actors.interface, request.actors.mesh.shape, children},
        request.actors.name() != "other"};
  }
  task<void> stop(ChildStop request) override {
    const std::lock_guard lock(requests_.mutex);
    requests_.stops.push_back(request.name);
    co_return;
  }
  task<void> end_children() override { co_return; }
  void child_ended(ChildEnd) override {}
  std::vector<ChildSpawn> children() override { return {}; }

 private:
  Requests& requests_;
  const ActorAddress child_;
};

/// Process of an owner, with a child that all spawns return.
struct Owner {
  explicit Owner(const std::string& name) : system(test::system_options(name)) {
    system.listen({"127.0.0.1", 0});
    child = system.host<Child>("child", 5);
    spawner = system.host_with<Spawner>(kSpawnerName, [this](Context&) -> std::unique_ptr<Spawner> {
      return std::make_unique<FakeOwner>(requests, system.ref<Child>(address()).address());
    });
  }
  ActorAddress address() const {
    ActorAddress address = child.address();
    address.process = system.self();
    return address;
  }
  Requests requests;
  System system;
  ActorRef<Child> child;
  ActorRef<Spawner> spawner;
};

/// Device process, which keeps its actors when their owner is lost.
struct Device {
  Device() {
    SystemOptions options = test::system_options("device");
    options.keep_actors_without_owner = true;
    system.emplace(std::move(options));
    system->provide<Parent>();
    at = system->listen({"127.0.0.1", 0});
    spawner = host_forwarding_spawner(*system);
  }
  std::vector<ChildSpawn> children() const { return spawner.call<&Spawner::children>().get(); }
  std::optional<System> system;
  Address at;
  ActorRef<Spawner> spawner;
};

ActorMesh<Parent> spawn_parent(Owner& owner, const Device& device) {
  return owner.system.spawn_mesh<Parent>("root", MeshShape(), {owner.system.connect(device.at)});
}

TEST(ContextSpawn, AsksTheOwnerAndReturnsAHandle) {
  Owner owner("driver");
  const auto parent = owner.system.host<Parent>("root");
  EXPECT_EQ(parent.call<&Parent::spawn_one>("kid").get(), 5);
  const ChildSpawn one = owner.requests.last();
  EXPECT_EQ(one.parent.actor, parent.address().actor);
  EXPECT_EQ(one.parent_mesh, "root");
  EXPECT_EQ(one.actors.name(), "kid");
  EXPECT_EQ(one.actors.interface, interface_version<Child>());
  EXPECT_EQ(decode<std::tuple<int>>(one.actors.arguments), std::tuple(5));
  EXPECT_EQ(options_of(one.actors).restarts, 3u);
  EXPECT_EQ(one.policy, ChildPolicy::kOptions) << "restarts are a policy";

  EXPECT_EQ(parent.call<&Parent::spawn_mesh>("team").get(), 2);
  const ChildSpawn mesh = owner.requests.last();
  EXPECT_EQ(mesh.actors.mesh.shape, (MeshShape{{"worker", 2}}));
  EXPECT_EQ(mesh.actors.mesh.needs.cpus, 0.5);
  EXPECT_EQ(mesh.actors.mesh.strategy, PlacementStrategy::kSpread);
  EXPECT_EQ(mesh.actors.mesh.labels.at("zone"), "a");
  EXPECT_EQ(mesh.policy, ChildPolicy::kOnFailure) << "its class has on_failure";
  parent.call<&Parent::stop>("team").get();
  EXPECT_THAT(owner.requests.stops, testing::ElementsAre("team"));
  EXPECT_THAT([&] { (void)parent.call<&Parent::spawn_one>("taken").get(); },
              throws_error(ErrorCode::kAlreadyExists, "named 'taken'"));
}

TEST(ContextSpawn, NeedsACluster) {
  System system{SystemOptions()};
  const auto parent = system.host<Parent>("root");
  EXPECT_THAT([&] { (void)parent.call<&Parent::spawn_one>("kid").get(); },
              throws_error(ErrorCode::kFailedPrecondition, "root cannot spawn or stop 'kid'",
                           "belongs to no cluster"));
  Device device;
  const auto own = device.system->host<Parent>("own");
  EXPECT_THAT([&] { (void)own.call<&Parent::spawn_one>("kid").get(); },
              throws_error(ErrorCode::kFailedPrecondition, "device hosts this actor itself"));
}

TEST(ContextSpawn, RunsDecisionsOnTheThreadOfTheParent) {
  Owner owner("driver");
  Device device;
  const auto mesh = spawn_parent(owner, device);
  const auto parent = mesh.rank(0);
  parent.call<&Parent::spawn_deciding>("kid").get();
  const ChildSpawn request = owner.requests.last();
  EXPECT_EQ(request.policy, ChildPolicy::kDecider);
  const auto decision = [&](std::uint64_t decider, std::uint64_t epoch) {
    const Incident incident{"kid", epoch, {}, 0};
    return future_of<OnFailure>(
               owner.system.ask_decider(request.parent, decider, encode(incident), 5s))
        .get();
  };
  EXPECT_EQ(decision(request.decider, 1), OnFailure::kRestForOne);
  EXPECT_EQ(parent.call<&Parent::decided>().get(), "kid");
  EXPECT_THAT([&] { (void)decision(request.decider, 2); },
              throws_error(ErrorCode::kInternal, "undecided"));
  const auto is_forgotten = [&](std::uint64_t decider) {
    return error_of([&] { (void)decision(decider, 1); }).code() == ErrorCode::kNotFound;
  };
  EXPECT_TRUE(is_forgotten(999));
  // A spawn that fails leaves the decider of others alone, and none of its own.
  (void)error_of([&] { parent.call<&Parent::spawn_deciding>("taken").get(); });
  EXPECT_NE(owner.requests.last().decider, request.decider);
  EXPECT_TRUE(is_forgotten(owner.requests.last().decider));
  EXPECT_EQ(decision(request.decider, 1), OnFailure::kRestForOne);
  device.spawner.call<&Spawner::child_ended>(ChildEnd{request.parent.actor, request.number, 0})
      .get();
  EXPECT_TRUE(is_forgotten(request.decider)) << "its child has ended";
}

TEST(ContextSpawn, AProcessKeepsTheChildrenOfItsActorsForTheNextOwner) {
  Device device;
  std::optional<Owner> owner(std::in_place, "driver");
  std::optional<ActorMesh<Parent>> mesh = spawn_parent(*owner, device);
  const auto parent = mesh->rank(0);
  for (const char* name : {"a", "b", "other", "c"}) parent.call<&Parent::spawn_one>(name).get();
  (void)error_of([&] { (void)parent.call<&Parent::spawn_one>("taken").get(); });
  parent.call<&Parent::stop>("b").get();
  std::vector<std::string> names;
  for (const ChildSpawn& child : device.children()) names.push_back(child.actors.name());
  EXPECT_THAT(names, testing::ElementsAre("a", "c")) << "'other' belongs to another owner";
  // "a" has ended itself, and its name is used again.
  parent.call<&Parent::spawn_one>("a").get();
  const ChildSpawn c = device.children().front();
  EXPECT_EQ(c.actors.name(), "c");
  EXPECT_EQ(device.children().size(), 2u);
  device.spawner.call<&Spawner::child_ended>(ChildEnd{c.parent.actor, c.number, 0}).get();
  EXPECT_EQ(device.children().size(), 1u) << "the owner says that c has ended";
  std::move(*mesh).detach();
}

TEST(ContextSpawn, WaitsForAnOwnerThatIsStartedAgain) {
  Device device;
  const auto caller = device.system->named<Spawner>(device.system->self(), kSpawnerName);
  std::optional<Owner> owner(std::in_place, "driver");
  std::optional<ActorMesh<Parent>> mesh = spawn_parent(*owner, device);
  const ActorId actor = mesh->rank(0).address().actor;
  // The owner is lost: its process has disconnected without a goodbye.
  owner->system.declare_dead(device.system->self().id, Error(ErrorCode::kPeerDied, "lost"));
  ASSERT_TRUE(test::eventually([&] { return device.system->peers().empty(); }));
  std::move(*mesh).detach();
  mesh.reset();
  owner.reset();
  ChildSpawn request;
  request.parent = {device.system->self(), actor, "root"};
  request.actors.mesh.mesh = "kid";
  auto spawning = caller.within(20s).call<&Spawner::spawn>(request);
  Owner next("next driver");
  const auto adopted =
      next.system.adopt_mesh<Parent>("root", MeshShape(), {next.system.connect(device.at)});
  EXPECT_EQ(spawning.get().actors.name, "kid");
  EXPECT_EQ(next.requests.count(), 1u);
  EXPECT_EQ(next.requests.last().number, 1u) << "the request can be repeated";
  EXPECT_TRUE(next.requests.last().is_repeated);
}

}  // namespace
}  // namespace weft::actors

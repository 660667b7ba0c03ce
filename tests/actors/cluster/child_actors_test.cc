#include "actors/cluster/child_actors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using test::throws_error;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

ActorAddress actor(std::uint64_t process, std::uint64_t id, const std::string& label) {
  return {{ProcessId(process), "process", {}}, ActorId(id), label};
}

ChildSpawn request_of(const ActorAddress& parent, const std::string& name,
                      std::uint64_t number = 0) {
  ChildSpawn request;
  request.parent = parent;
  request.parent_mesh = parent.label;
  request.number = number;
  request.actors.mesh.mesh = name;
  return request;
}

/// Spawns a child. Returns its address, in the process with the number `process`.
ActorAddress spawn(ChildActors& children, const ActorAddress& parent, const std::string& name,
                   std::uint64_t process) {
  const ActorAddress child = actor(process, 1, name);
  const ChildActors::Begun begun = children.begin(request_of(parent, name));
  EXPECT_TRUE(children.finish(begun.id, NamedActors{name, {}, {}, {child}}));
  return child;
}

const ActorAddress kRoot = actor(1, 7, "root");

TEST(ChildActors, EndInReverseOrderOfTheirSpawns) {
  ChildActors children;
  const ActorAddress second_rank = actor(2, 7, "root");
  spawn(children, kRoot, "a", 3);
  spawn(children, second_rank, "b", 4);
  const ActorAddress c = spawn(children, kRoot, "c", 5);
  spawn(children, c, "d", 6);
  const std::vector<ActorAddress> both = {kRoot, second_rank};
  EXPECT_THAT(children.end(both), ElementsAre("c", "b", "a")) << "d is of c";
  EXPECT_THAT([&] { (void)children.begin(request_of(kRoot, "late")); },
              throws_error(ErrorCode::kCancelled, "root has ended"));
  EXPECT_THAT(children.end(std::vector{c}), ElementsAre("d"));
}

TEST(ChildActors, OfAProcessEndTogether) {
  ChildActors children;
  spawn(children, kRoot, "a", 3);
  spawn(children, actor(1, 8, "other"), "b", 4);
  spawn(children, actor(2, 7, "elsewhere"), "c", 5);
  EXPECT_TRUE(children.has_children(ProcessId(1)));
  EXPECT_FALSE(children.has_children(ProcessId(3)));
  EXPECT_THAT(children.end_process(ProcessId(1)), ElementsAre("b", "a"));
  EXPECT_THAT([&] { (void)children.begin(request_of(actor(1, 9, "third"), "late")); },
              throws_error(ErrorCode::kCancelled, "third has ended"));
}

TEST(ChildActors, AreForgottenOnceTheyHaveEnded) {
  ChildActors children;
  spawn(children, kRoot, "a", 3);
  EXPECT_TRUE(children.contains("a"));
  EXPECT_TRUE(children.is_child_of(kRoot, "a"));
  EXPECT_FALSE(children.is_child_of(actor(3, 1, "a"), "a"));
  children.forget("a");
  EXPECT_FALSE(children.contains("a"));
  EXPECT_THAT(children.end(std::vector{kRoot}), IsEmpty());
}

TEST(ChildActors, AChildWhoseParentEndsWhileItIsSpawnedIsRefused) {
  ChildActors children;
  const ChildActors::Begun begun = children.begin(request_of(kRoot, "slow"));
  EXPECT_FALSE(children.is_abandoned(begun.id));
  EXPECT_THAT(children.end(std::vector{kRoot}), IsEmpty()) << "there is nothing to stop yet";
  EXPECT_TRUE(children.is_abandoned(begun.id));
  EXPECT_FALSE(children.finish(begun.id, NamedActors{"slow", {}, {}, {}}));
  std::thread waiting(
      [&] { children.wait_until_gone(std::vector{kRoot}, std::chrono::minutes(1)); });
  children.erase(begun.id);
  waiting.join();
  EXPECT_FALSE(children.contains("slow"));
}

TEST(ChildActors, ARepeatedRequestGetsTheChildOfTheFirst) {
  ChildActors children;
  const ChildSpawn request = request_of(kRoot, "once", 5);
  const ChildActors::Begun begun = children.begin(request);
  EXPECT_FALSE(begun.actors);
  ChildActors::Begun again;
  std::thread repeating([&] { again = children.begin(request); });
  EXPECT_TRUE(children.finish(begun.id, NamedActors{"once", {}, {}, {actor(3, 1, "once")}}));
  repeating.join();
  ASSERT_TRUE(again.actors);
  EXPECT_EQ(again.actors->addresses[0].process.id, ProcessId(3));
  // Another request of that process is another child.
  EXPECT_FALSE(children.begin(request_of(kRoot, "once", 6)).actors);
}

TEST(ChildActors, AnActorOfTheOwnersProcessIsHostedAgain) {
  ChildActors children(ProcessId(1));
  spawn(children, kRoot, "a", 3);
  EXPECT_THAT(children.end(std::vector{kRoot}), ElementsAre("a"));
  EXPECT_THAT(children.ending(std::vector{kRoot}), ElementsAre("a"));
  EXPECT_THAT(children.forget("a"), IsEmpty()) << "its parent has ended";
  spawn(children, kRoot, "a", 4);
  // A late notice of the former actor's end.
  EXPECT_THAT(children.ending(std::vector{kRoot}), IsEmpty());
  children.wait_until_gone(std::vector{kRoot}, std::chrono::minutes(1));
  EXPECT_EQ(children.forget("a").size(), 1u) << "its parent is told";
}

TEST(ChildActors, OnlyTheRequestOfAnEndedParentIsAbandoned) {
  ChildActors children;
  const auto first = children.begin(request_of(kRoot, "kid", 7));
  EXPECT_FALSE(children.is_abandoned(first.id));
  (void)children.end(std::vector{kRoot});
  const auto second = children.begin(request_of(actor(2, 7, "root"), "kid", 7));
  EXPECT_TRUE(children.is_abandoned(first.id));
  EXPECT_FALSE(children.is_abandoned(second.id));
  EXPECT_FALSE(children.is_abandoned(0));
}

TEST(ChildActors, ARequestIsWithdrawnByItsNumberWhetherItsChildrenRunOrNot) {
  ChildActors children;
  const NamedActors kid{"kid", {}, {}, {actor(3, 1, "kid")}};
  const auto starting = children.begin(request_of(kRoot, "kid", 7));
  EXPECT_FALSE(children.withdraw({kRoot, "kid", 8}));
  EXPECT_FALSE(children.withdraw({kRoot, "kid", 7})) << "there is nothing to stop yet";
  EXPECT_FALSE(children.finish(starting.id, kid));
  children.erase(starting.id);
  const auto running = children.begin(request_of(kRoot, "kid", 9));
  EXPECT_TRUE(children.finish(running.id, kid));
  EXPECT_FALSE(children.has_to_stop("kid"));
  EXPECT_TRUE(children.withdraw({kRoot, "kid", 9}));
  EXPECT_TRUE(children.has_to_stop("kid"));
}

TEST(ChildActors, AFailedRequestCanBeRepeated) {
  ChildActors children;
  const ChildSpawn request = request_of(kRoot, "once", 5);
  children.erase(children.begin(request).id);
  EXPECT_FALSE(children.begin(request).actors);
}

TEST(ChildActors, AreNested64DeepAtMost) {
  ChildActors children;
  ActorAddress parent = kRoot;
  for (std::uint64_t depth = 1; depth <= ChildActors::kMaxDepth; ++depth)
    parent = spawn(children, parent, "child" + std::to_string(depth), 100 + depth);
  EXPECT_THAT([&] { (void)children.begin(request_of(parent, "deep")); },
              throws_error(ErrorCode::kFailedPrecondition, "child64 cannot spawn 'deep'",
                           "64 spawns lie between it and root", "let an actor higher up"));
  EXPECT_FALSE(children.contains("deep"));
  // Beside them is room.
  spawn(children, kRoot, "wide", 99);
}

TEST(ChildActors, NoneBeginsAfterTheEndOfTheOwner) {
  ChildActors children;
  const ActorAddress a = spawn(children, kRoot, "a", 3);
  spawn(children, a, "b", 4);
  EXPECT_THAT(children.end_all(), ElementsAre("b", "a"));
  EXPECT_THAT([&] { (void)children.begin(request_of(a, "late")); },
              throws_error(ErrorCode::kCancelled, "a has ended"));
}

}  // namespace
}  // namespace weft::actors

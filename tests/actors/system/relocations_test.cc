#include "actors/system/internal/relocations.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using test::throws_error;

ActorAddress address_of(std::uint64_t process) {
  return {{ProcessId(process), "process" + std::to_string(process), {}}, ActorId(7), "counter"};
}
ActorKey key_of(std::uint64_t process) { return ActorKey::of(address_of(process)); }

TEST(Relocations, AnActorThatNeverMovedIsAtItsAddress) {
  Relocations relocations;
  EXPECT_EQ(relocations.current(address_of(1), nullptr), address_of(1));
}

TEST(Relocations, CallsWaitForTheEndOfARestartInTheirOrder) {
  Relocations relocations;
  ASSERT_TRUE(relocations.begin(key_of(1)));
  EXPECT_FALSE(relocations.begin(key_of(1))) << "it has begun";
  std::vector<std::string> order;
  const auto wait = [&](const std::string& name) {
    return relocations.current(address_of(1), [&order, name](const Outcome<ActorAddress>& now) {
      order.push_back(name + now.value().process.name);
    });
  };
  EXPECT_EQ(wait("first "), std::nullopt);
  EXPECT_EQ(relocations.current(address_of(1),
                                [&](const Outcome<ActorAddress>&) {
                                  // A call that is made here must not overtake the third.
                                  EXPECT_EQ(wait("late "), std::nullopt);
                                }),
            std::nullopt);
  EXPECT_EQ(wait("third "), std::nullopt);
  relocations.finish(key_of(1), address_of(2));
  EXPECT_EQ(order, (std::vector<std::string>{"first process2", "third process2", "late process2"}));
  EXPECT_EQ(relocations.current(address_of(1), nullptr), address_of(2));
}

TEST(Relocations, FollowAnActorThroughSeveralRestarts) {
  Relocations relocations;
  for (std::uint64_t process = 1; process < 5; ++process) {
    ASSERT_TRUE(relocations.begin(key_of(process)));
    relocations.finish(key_of(process), address_of(process + 1));
  }
  EXPECT_EQ(relocations.current(address_of(1), nullptr), address_of(5));
  ASSERT_TRUE(relocations.begin(key_of(5)));
  EXPECT_EQ(relocations.current(address_of(1), [](const Outcome<ActorAddress>&) {}), std::nullopt);
}

TEST(Relocations, ALostActorGivesTheReasonToAllCalls) {
  Relocations relocations;
  relocations.watch(key_of(1));
  relocations.begin(key_of(1));
  std::string reason;
  EXPECT_EQ(
      relocations.current(
          address_of(1), [&](const Outcome<ActorAddress>& now) { reason = now.error().message(); }),
      std::nullopt);
  relocations.unwatch(key_of(1), Error(ErrorCode::kPeerDied, "no restart is left"));
  EXPECT_EQ(reason, "no restart is left");
  EXPECT_THAT([&] { relocations.current(address_of(1), nullptr); },
              throws_error(ErrorCode::kPeerDied, "no restart is left"));
  EXPECT_FALSE(relocations.watches(key_of(1)));
}

TEST(Relocations, TheNewIncarnationOfAWatchedActorIsWatched) {
  Relocations relocations;
  relocations.watch(key_of(1));
  relocations.begin(key_of(1));
  relocations.finish(key_of(1), address_of(2));
  EXPECT_FALSE(relocations.watches(key_of(1)));
  EXPECT_TRUE(relocations.watches(key_of(2)));
}

TEST(Relocations, ARestartThatWasNoneLeavesTheActorWhereItWas) {
  Relocations relocations;
  relocations.begin(key_of(1));
  std::string where;
  EXPECT_EQ(relocations.current(
                address_of(1),
                [&](const Outcome<ActorAddress>& now) { where = now.value().process.name; }),
            std::nullopt);
  relocations.withdraw(address_of(1));
  EXPECT_EQ(where, "process1");
  EXPECT_EQ(relocations.current(address_of(1), nullptr), address_of(1));
  EXPECT_TRUE(relocations.begin(key_of(1))) << "it can begin again";
}

TEST(Relocations, TooManyWaitingCallsAreRefused) {
  Relocations relocations;
  relocations.begin(key_of(1));
  const auto wait = [&] {
    return relocations.current(address_of(1), [](const Outcome<ActorAddress>&) {});
  };
  for (std::size_t i = 0; i < Relocations::kMaxWaiting; ++i) EXPECT_EQ(wait(), std::nullopt);
  EXPECT_THAT([&] { (void)wait(); }, throws_error(ErrorCode::kResourceExhausted,
                                                  "wait already for the restart of counter"));
}

}  // namespace
}  // namespace weft::actors

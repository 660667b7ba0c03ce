#include "actors/system/internal/relocations.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using test::throws_error;

ActorAddress address_of(std::uint64_t process) {
  return {{ProcessId(process), "process" + std::to_string(process), {}}, ActorId(7), "counter"};
}
ActorKey key_of(std::uint64_t process) { return ActorKey::of(address_of(process)); }

/// Asks where process 1's actor is. Calls `then` later if it is being restarted.
std::optional<ActorAddress> ask(
    Relocations& relocations,
    std::function<void(const Outcome<ActorAddress>&)> then = [](const Outcome<ActorAddress>&) {},
    std::uint64_t sequence = 0) {
  return relocations.current(address_of(1), {std::move(then), sequence});
}

TEST(Relocations, AnActorThatNeverMovedIsAtItsAddress) {
  Relocations relocations;
  EXPECT_EQ(ask(relocations), address_of(1));
}

TEST(Relocations, CallsWaitForTheEndOfARestartAndRunInTheOrderInWhichTheyWereMade) {
  Relocations relocations;
  ASSERT_TRUE(relocations.begin(key_of(1)));
  EXPECT_FALSE(relocations.begin(key_of(1))) << "it has begun";
  std::vector<std::string> order;
  const auto wait = [&](const std::string& name, std::uint64_t sequence) {
    EXPECT_EQ(ask(
                  relocations,
                  [&order, name](const Outcome<ActorAddress>& now) {
                    order.push_back(name + now.value().process.name);
                  },
                  sequence),
              std::nullopt);
  };
  wait("third ", 3);
  wait("first ", 1);
  EXPECT_EQ(ask(
                relocations,
                [&](const Outcome<ActorAddress>&) {
                  // A call that is made here must not overtake the third.
                  wait("late ", 4);
                },
                2),
            std::nullopt);
  relocations.finish(key_of(1), address_of(2));
  EXPECT_EQ(order, (std::vector<std::string>{"first process2", "third process2", "late process2"}));
  EXPECT_EQ(ask(relocations), address_of(2));
}

TEST(Relocations, FollowAnActorThroughSeveralRestarts) {
  Relocations relocations;
  for (std::uint64_t process = 1; process < 5; ++process) {
    ASSERT_TRUE(relocations.begin(key_of(process)));
    relocations.finish(key_of(process), address_of(process + 1));
  }
  EXPECT_EQ(ask(relocations), address_of(5));
  ASSERT_TRUE(relocations.begin(key_of(5)));
  EXPECT_EQ(ask(relocations), std::nullopt);
  EXPECT_EQ(relocations.last_known(address_of(1)), address_of(5));
}

TEST(Relocations, ALostActorGivesTheReasonToAllCalls) {
  Relocations relocations;
  relocations.watch(key_of(1));
  relocations.begin(key_of(1));
  std::string reason;
  EXPECT_EQ(
      ask(relocations, [&](const Outcome<ActorAddress>& now) { reason = now.error().message(); }),
      std::nullopt);
  relocations.unwatch(key_of(1), Error(ErrorCode::kPeerDied, "no restart is left"));
  EXPECT_EQ(reason, "no restart is left");
  EXPECT_THAT([&] { (void)ask(relocations); },
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
  EXPECT_EQ(
      ask(relocations, [&](const Outcome<ActorAddress>& now) { where = now.value().process.name; }),
      std::nullopt);
  relocations.withdraw(address_of(1));
  EXPECT_EQ(where, "process1");
  EXPECT_EQ(ask(relocations), address_of(1));
  EXPECT_TRUE(relocations.begin(key_of(1))) << "it can begin again";
}

TEST(Relocations, AConfirmedRestartIsNotWithdrawn) {
  Relocations relocations;
  relocations.watch(key_of(1));
  relocations.begin(key_of(1));
  relocations.confirm_all_of(ProcessId(1));
  relocations.withdraw(address_of(1));
  EXPECT_EQ(ask(relocations), std::nullopt) << "its owner restarts it";
  relocations.finish_unmoved(address_of(1));
  EXPECT_EQ(ask(relocations), address_of(1)) << "its owner found it alive";
}

TEST(Relocations, WhatIsAbandonedFailsNowAndCanBeAskedLater) {
  Relocations relocations;
  relocations.begin(key_of(1));
  std::string reason;
  EXPECT_EQ(
      ask(relocations, [&](const Outcome<ActorAddress>& now) { reason = now.error().message(); }),
      std::nullopt);
  relocations.abandon(key_of(1), Error(ErrorCode::kUnavailable, "the owner does not answer"));
  EXPECT_EQ(reason, "the owner does not answer");
  EXPECT_EQ(ask(relocations), address_of(1));
}

const Error kAllDone(ErrorCode::kNotFound, "counter has ended: all is done");

TEST(Relocations, AnActorThatEndedItselfBeforeItIsWatchedIsOver) {
  Relocations relocations;
  relocations.end(key_of(1), kAllDone);
  EXPECT_FALSE(relocations.ended(key_of(1))) << "this process may not be its owner";
  relocations.watch(key_of(1));
  EXPECT_TRUE(relocations.ended(key_of(1)));
  EXPECT_FALSE(relocations.watches(key_of(1)));
  EXPECT_THAT([&] { (void)ask(relocations); },
              throws_error(ErrorCode::kNotFound, "counter has ended"));
}

TEST(Relocations, ARestartedActorThatEndedItselfAtOnceIsOver) {
  Relocations relocations;
  relocations.watch(key_of(1));
  relocations.begin(key_of(1));
  relocations.end(key_of(2), kAllDone);
  relocations.finish(key_of(1), address_of(2));
  EXPECT_TRUE(relocations.ended(key_of(2)));
  EXPECT_FALSE(relocations.watches(key_of(2)));
  EXPECT_THAT([&] { (void)ask(relocations); },
              throws_error(ErrorCode::kNotFound, "counter has ended"));
}

TEST(Relocations, OfTheExitsOfUnwatchedActorsTheLastAreKept) {
  Relocations relocations;
  for (std::uint64_t process = 0; process <= Relocations::kMaxEarlyExits; ++process)
    relocations.end(key_of(process), kAllDone);
  for (std::uint64_t process : {0, 1}) relocations.watch(key_of(process));
  EXPECT_TRUE(relocations.watches(key_of(0))) << "its exit was dropped";
  EXPECT_TRUE(relocations.ended(key_of(1)));
}

/// Call that is over.
class EndedCall final : public Pending {
 public:
  EndedCall() {
    (void)claim();
    publish();
  }
  void cancel() override {}
};

TEST(Relocations, TooManyWaitingCallsAreRefusedAndEndedOnesDoNotCount) {
  Relocations relocations;
  relocations.begin(key_of(1));
  const auto ended = std::make_shared<EndedCall>();
  for (std::size_t i = 0; i < Relocations::kMaxWaiting; ++i)
    EXPECT_EQ(relocations.current(address_of(1), {nullptr, i, ended}), std::nullopt);
  for (std::size_t i = 0; i < Relocations::kMaxWaiting; ++i)
    EXPECT_EQ(ask(relocations), std::nullopt);
  EXPECT_THAT(
      [&] { (void)ask(relocations); },
      throws_error(ErrorCode::kResourceExhausted, "wait already for the restart of counter"));
}

}  // namespace
}  // namespace weft::actors

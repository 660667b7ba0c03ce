#include "actors/system/internal/arrival_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using Fate = ArrivalOrder::Fate;
using Kind = CallOrder::Kind;

constexpr ProcessId kCaller(7);

Envelope numbered(std::uint64_t number, std::uint64_t stream = 1, Kind kind = Kind::kCall) {
  Envelope envelope;
  envelope.call.id = 100 * stream + number;
  envelope.call.actor = ActorId(3);
  envelope.call.order = {stream, number, kind};
  return envelope;
}

std::vector<std::uint64_t> ids(const std::vector<Envelope>& calls) {
  std::vector<std::uint64_t> list;
  for (const Envelope& envelope : calls) list.push_back(envelope.call.id);
  return list;
}

struct ArrivalOrderTest : testing::Test {
  ArrivalOrder order;
  ArrivalOrder::Arrivals arrivals;
  Fate add(Envelope envelope) { return order.add(kCaller, std::move(envelope), arrivals); }
};

TEST_F(ArrivalOrderTest, CallsStartInTheOrderOfTheirNumbers) {
  PhiloxStream random(11);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t number = 1; number <= 50; ++number) numbers.push_back(number);
    for (std::size_t i = numbers.size(); i > 1; --i)
      std::swap(numbers[i - 1], numbers[random.below(i)]);
    ArrivalOrder::Arrivals all;
    ArrivalOrder fresh;
    for (const std::uint64_t number : numbers)
      EXPECT_EQ(fresh.add(kCaller, numbered(number), all), Fate::kTaken);
    const auto started = ids(all.ready);
    EXPECT_EQ(started.size(), 50u);
    EXPECT_TRUE(std::ranges::is_sorted(started));
  }
}

TEST_F(ArrivalOrderTest, ASkipTakesThePlaceOfACall) {
  EXPECT_EQ(add(numbered(3)), Fate::kTaken);
  EXPECT_EQ(add(numbered(2, 1, Kind::kSkip)), Fate::kTaken);
  EXPECT_TRUE(arrivals.ready.empty());
  EXPECT_EQ(add(numbered(1)), Fate::kTaken);
  EXPECT_EQ(ids(arrivals.ready), (std::vector<std::uint64_t>{101, 103}));
}

TEST_F(ArrivalOrderTest, ACallThatComesTwiceStartsOnce) {
  EXPECT_EQ(add(numbered(1)), Fate::kTaken);
  EXPECT_EQ(add(numbered(1, 1, Kind::kResent)), Fate::kSeen);
  EXPECT_EQ(add(numbered(3)), Fate::kTaken);
  EXPECT_EQ(add(numbered(3, 1, Kind::kResent)), Fate::kSeen);
  EXPECT_EQ(add(numbered(2, 1, Kind::kResent)), Fate::kTaken);
  EXPECT_EQ(ids(arrivals.ready), (std::vector<std::uint64_t>{101, 102, 103}));
}

TEST_F(ArrivalOrderTest, UrgentCallsAndOtherActorsHaveNumbersOfTheirOwn) {
  EXPECT_EQ(add(numbered(2)), Fate::kTaken);
  Envelope urgent = numbered(1);
  urgent.call.urgent = true;
  urgent.call.id = 1;
  EXPECT_EQ(add(std::move(urgent)), Fate::kTaken);
  Envelope other = numbered(1);
  other.call.actor = ActorId(4);
  other.call.id = 2;
  EXPECT_EQ(add(std::move(other)), Fate::kTaken);
  EXPECT_EQ(order.add(ProcessId(8), numbered(1), arrivals), Fate::kTaken);
  EXPECT_EQ(ids(arrivals.ready), (std::vector<std::uint64_t>{1, 2, 101}));
}

TEST_F(ArrivalOrderTest, ANewConnectionEndsTheWaitForTheOldOne) {
  EXPECT_EQ(add(numbered(2)), Fate::kTaken);
  EXPECT_EQ(add(numbered(1, 2)), Fate::kTaken);
  EXPECT_EQ(ids(arrivals.dropped), (std::vector<std::uint64_t>{102}));
  EXPECT_EQ(ids(arrivals.ready), (std::vector<std::uint64_t>{201}));
  EXPECT_EQ(add(numbered(1)), Fate::kStale);
}

TEST_F(ArrivalOrderTest, ALostCallerDropsWhatWaits) {
  EXPECT_EQ(add(numbered(2)), Fate::kTaken);
  order.drop(kCaller, 0, arrivals);
  EXPECT_EQ(ids(arrivals.dropped), (std::vector<std::uint64_t>{102}));
  EXPECT_EQ(add(numbered(1)), Fate::kStale) << "it was numbered for the lost connection";
  EXPECT_EQ(add(numbered(1, 2)), Fate::kTaken);
  EXPECT_EQ(ids(arrivals.ready), (std::vector<std::uint64_t>{201}));
}

TEST_F(ArrivalOrderTest, ALostConnectionEndsOnlyTheStreamsThatItBrought) {
  EXPECT_EQ(add(numbered(1)), Fate::kTaken);
  order.drop(kCaller, 0, arrivals);
  EXPECT_EQ(add(numbered(2)), Fate::kTaken) << "no direct call is missing";
  // The caller has lost the connection before this process, and begun another stream.
  Envelope other = numbered(1, 2);
  other.call.actor = ActorId(4);
  EXPECT_EQ(add(std::move(other)), Fate::kTaken);
  order.drop(kCaller, 1, arrivals);
  EXPECT_EQ(add(numbered(3)), Fate::kStale);
  other = numbered(2, 2);
  other.call.actor = ActorId(4);
  EXPECT_EQ(add(std::move(other)), Fate::kTaken);
  EXPECT_EQ(ids(arrivals.ready), (std::vector<std::uint64_t>{101, 102, 201, 202}));
  EXPECT_TRUE(arrivals.dropped.empty());
}

TEST_F(ArrivalOrderTest, AForgottenCallerIsAskedForANewStream) {
  EXPECT_EQ(add(numbered(1, 5)), Fate::kTaken);
  for (std::uint64_t other = 0; other < ArrivalOrder::kMaxOrigins; ++other)
    EXPECT_EQ(order.add(ProcessId(1000 + other), numbered(1), arrivals), Fate::kTaken);
  EXPECT_EQ(add(numbered(2, 5)), Fate::kStale) << "it would wait for the first one for ever";
  EXPECT_EQ(add(numbered(2, 6)), Fate::kTaken);
  EXPECT_EQ(add(numbered(1, 6)), Fate::kTaken);
  EXPECT_EQ(arrivals.ready.back().call.id, 602u);
}

TEST_F(ArrivalOrderTest, ACallerThatHasEndedDropsWhatWaits) {
  EXPECT_EQ(add(numbered(2)), Fate::kTaken);
  order.forget(kCaller, arrivals);
  EXPECT_EQ(ids(arrivals.dropped), (std::vector<std::uint64_t>{102}));
}

TEST_F(ArrivalOrderTest, ACancelledCallIsNotMissed) {
  EXPECT_EQ(add(numbered(2)), Fate::kTaken);
  EXPECT_EQ(add(numbered(3)), Fate::kTaken);
  EXPECT_EQ(order.cancel(kCaller, 999), std::nullopt);
  ASSERT_NE(order.cancel(kCaller, 102), std::nullopt);
  EXPECT_EQ(order.cancel(kCaller, 102), std::nullopt);
  EXPECT_EQ(add(numbered(1)), Fate::kTaken);
  EXPECT_EQ(ids(arrivals.ready), (std::vector<std::uint64_t>{101, 103}));
}

TEST_F(ArrivalOrderTest, TooManyWaitingCallsAreAnErrorThatNamesBothNumbers) {
  for (std::uint64_t number = 2; number < 2 + ArrivalOrder::kMaxHeld; ++number)
    EXPECT_EQ(add(numbered(number)), Fate::kTaken);
  EXPECT_THAT([&] { (void)add(numbered(1026)); },
              test::throws_error(ErrorCode::kResourceExhausted, "call number 1026",
                                 "call number 1 has not"));
  EXPECT_EQ(add(numbered(1027, 1, Kind::kSkip)), Fate::kTaken);
  EXPECT_EQ(add(numbered(1)), Fate::kTaken);
  EXPECT_EQ(arrivals.ready.size(), 1 + ArrivalOrder::kMaxHeld);
  EXPECT_EQ(add(numbered(1028)), Fate::kTaken) << "the refused number counts as come";
  EXPECT_EQ(arrivals.ready.back().call.id, 1128u);
}

TEST_F(ArrivalOrderTest, TooManyEarlyNumbersEndTheStream) {
  EXPECT_EQ(add(numbered(2)), Fate::kTaken);
  for (std::uint64_t number = 3; number < 2 + ArrivalOrder::kMaxEarly; ++number)
    EXPECT_EQ(add(numbered(number, 1, Kind::kSkip)), Fate::kTaken);
  EXPECT_EQ(add(numbered(2 + ArrivalOrder::kMaxEarly, 1, Kind::kSkip)), Fate::kStale);
  EXPECT_EQ(ids(arrivals.dropped), (std::vector<std::uint64_t>{102}));
  EXPECT_EQ(add(numbered(1)), Fate::kStale);
  EXPECT_EQ(add(numbered(1, 2)), Fate::kTaken);
}

TEST_F(ArrivalOrderTest, ForgetsTheNumbersForActorsThatHaveEnded) {
  std::uint64_t actor = 0;
  for (; !order.needs_purge(); ++actor) {
    Envelope call = numbered(1);
    call.call.actor = ActorId(actor);
    EXPECT_EQ(add(std::move(call)), Fate::kTaken);
  }
  EXPECT_EQ(add(numbered(3)), Fate::kTaken) << "of actor 3, held";
  order.purge([](ActorId each) { return each != ActorId(3); }, arrivals);
  EXPECT_EQ(ids(arrivals.dropped), (std::vector<std::uint64_t>{103}));
  EXPECT_TRUE(order.cancel(kCaller, 103) == std::nullopt);
  EXPECT_FALSE(order.needs_purge()) << "most actors live, so the next purge is later";
  Envelope known = numbered(1);
  known.call.actor = ActorId(4);
  EXPECT_EQ(add(std::move(known)), Fate::kSeen);
  for (std::uint64_t other = actor; !order.needs_purge(); ++other) {
    Envelope call = numbered(1);
    call.call.actor = ActorId(other);
    EXPECT_EQ(add(std::move(call)), Fate::kTaken);
  }
  order.purge([](ActorId) { return false; }, arrivals);
  EXPECT_FALSE(order.needs_purge());
  EXPECT_EQ(add(numbered(1)), Fate::kTaken) << "nothing is known of actor 3";
}

}  // namespace
}  // namespace weft::actors

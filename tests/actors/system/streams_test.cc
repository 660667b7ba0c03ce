// Results as they arrive: stream(), first_of(), choose(); scatter().

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/actors/system/pool.h"
#include "tests/support/eventually.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::eventually;
using test::throws_error;

/// Actor that reads streams in handlers.
class Foreman final {
 public:
  explicit Foreman(Context&) {}
  task<std::vector<std::int64_t>> ranks(MeshRef<Solver> pool) {
    std::vector<std::int64_t> found;
    auto stream = pool.stream<&Solver::rank>();
    while (auto next = co_await stream.next()) found.push_back(next->result.value());
    std::sort(found.begin(), found.end());
    co_return found;
  }
  task<int> sum_of_squares(MeshRef<Solver> pool, std::vector<int> numbers) {
    int total = 0;
    auto stream = pool.map<&Solver::square>(numbers);
    while (auto next = co_await stream.next()) total += next->result.value();
    co_return total;
  }
  /// Returns the rank of the first actor that answers. Its calls of the others are cancelled.
  task<std::int64_t> fastest(MeshRef<Solver> pool, std::int64_t first) {
    std::vector<Future<std::int64_t>> calls;
    for (std::int64_t i = 0; i < pool.size(); ++i)
      calls.push_back(pool.rank(i).call<&Solver::wait_below>(first));
    const std::size_t index = co_await first_of(calls);
    const std::int64_t rank = co_await std::move(calls[index]);
    calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(index));
    for (auto& call : calls) call.cancel();
    co_return rank;
  }
  task<> read_to_the_end(MeshRef<Solver> pool) {
    auto stream = pool.stream<&Solver::wait_below>(pool.size());
    while (auto next = co_await stream.next()) next->result.value();
  }
  static constexpr auto endpoints = interface<"test.foreman", 1>(
      on<&Foreman::ranks>("ranks"), on<&Foreman::sum_of_squares>("sum_of_squares"),
      on<&Foreman::fastest>("fastest"), on<&Foreman::read_to_the_end>("read_to_the_end"));
};

TEST(ResultStream, GivesOneResultPerRankWhateverItIs) {
  Pool pool(4);
  std::set<std::size_t> ranks;
  for (auto&& [rank, result] : pool.mesh->stream<&Solver::rank_from>(2)) {
    EXPECT_TRUE(ranks.insert(rank).second) << rank;
    if (rank >= 2) EXPECT_EQ(result.value(), static_cast<std::int64_t>(rank));
    else EXPECT_EQ(result.error().actor(), "pool[worker=" + std::to_string(rank) + "]");
  }
  EXPECT_EQ(ranks.size(), 4u);
  int noted = 0;
  for (auto&& [rank, result] : pool.mesh->slice({{"worker", 1, 3}}).stream<&Solver::note>("x")) {
    EXPECT_LT(rank, 2u) << "ranks are those of the slice";
    noted += result.ok();
  }
  EXPECT_EQ(noted, 2);
}

TEST(ResultStream, GivesResultsAsTheyArrive) {
  Pool pool(3);
  auto stream = pool.mesh->stream<&Solver::wait_below>(2);
  EXPECT_EQ(stream.next().get()->key, 2u);
  auto next = stream.next();
  EXPECT_FALSE(next.wait_for(20ms));
  pool.mesh->rank(1).call<&Solver::open>().get();
  EXPECT_EQ(next.get()->key, 1u);
  pool.mesh->rank(0).call<&Solver::open>().get();
  EXPECT_EQ(stream.next().get()->result.value(), 0);
  EXPECT_FALSE(stream.next().get());
  EXPECT_FALSE(stream.next().get()) << "the end stays";
}

TEST(ResultStream, AWaitThatEndsEarlyLosesNoResult) {
  Pool pool(1);
  auto stream = pool.mesh->stream<&Solver::wait_below>(1);
  EXPECT_THAT([&] { (void)stream.next().get(10ms); },
              throws_error(ErrorCode::kDeadlineExceeded, "no result within 10 ms"));
  { auto dropped = stream.next(); }
  auto unused = std::make_optional(stream.next());
  pool.mesh->rank(0).call<&Solver::open>().get();
  EXPECT_TRUE(eventually([&] { return unused->ready(); }));
  unused.reset();
  EXPECT_EQ(stream.next().get()->result.value(), 0);
}

TEST(ResultStream, DestroyedEarlyItCancelsTheCallsThatAreUnderWay) {
  Pool pool(3);
  for (auto&& [rank, result] : pool.mesh->stream<&Solver::wait_below>(2)) {
    EXPECT_EQ(rank, 2u);
    EXPECT_TRUE(result.ok());
    EXPECT_TRUE(eventually([&] {
      return pool.mesh->rank(0).call<&Solver::is_waiting>().get() &&
             pool.mesh->rank(1).call<&Solver::is_waiting>().get();
    }));
    break;
  }
  EXPECT_TRUE(eventually([] { return Solver::cancelled == 2; }));
}

TEST(ResultStream, AssignedOverItCancelsTheCallsThatAreUnderWay) {
  Pool pool(1);
  auto stream = pool.mesh->stream<&Solver::wait_below>(1);
  EXPECT_TRUE(eventually([&] { return pool.mesh->rank(0).call<&Solver::is_waiting>().get(); }));
  auto other = pool.mesh->stream<&Solver::rank>();
  stream = std::move(other);
  EXPECT_TRUE(eventually([] { return Solver::cancelled == 1; }));
  EXPECT_EQ(stream.next().get()->result.value(), 0);
}

TEST(ResultStream, CancelledItGivesTheErrorsOfTheRest) {
  Pool pool(2);
  auto stream = pool.mesh->stream<&Solver::wait_below>(1);
  EXPECT_EQ(stream.next().get()->key, 1u);
  stream.cancel();
  EXPECT_EQ(stream.next().get()->result.error().code(), ErrorCode::kCancelled);
  EXPECT_FALSE(stream.next().get());
}

TEST(ResultStream, TheDeadlineHoldsForEachCall) {
  Pool pool(2);
  int late = 0;
  for (auto&& [rank, result] : pool.mesh->within(50ms).stream<&Solver::wait_below>(1)) {
    if (result.ok()) continue;
    EXPECT_EQ(result.error().code(), ErrorCode::kDeadlineExceeded);
    late += rank == 0 ? 1 : 100;
  }
  EXPECT_EQ(late, 1);
}

TEST(ResultStream, IsReadInHandlers) {
  Pool pool(3);
  const auto foreman = pool.driver.host<Foreman>("foreman");
  EXPECT_EQ(foreman.call<&Foreman::ranks>(pool.mesh->ref()).get(),
            (std::vector<std::int64_t>{0, 1, 2}));
  std::vector<int> numbers(100, 2);
  EXPECT_EQ(foreman.call<&Foreman::sum_of_squares>(pool.mesh->ref(), numbers).get(), 400);
}

TEST(ResultStream, ACancelledHandlerCancelsTheCallsOfItsStream) {
  Pool pool(2);
  const auto foreman = pool.driver.host<Foreman>("foreman");
  auto reading = foreman.call<&Foreman::read_to_the_end>(pool.mesh->ref());
  for (const std::int64_t rank : {0, 1})
    EXPECT_TRUE(
        eventually([&] { return pool.mesh->rank(rank).call<&Solver::is_waiting>().get(); }));
  reading.cancel();
  EXPECT_TRUE(eventually([] { return Solver::cancelled == 2; }));
}

TEST(FirstOf, GivesTheFirstThatIsDoneAndLeavesAllUsable) {
  Pool pool(3);
  std::vector<Future<std::int64_t>> calls;
  for (std::int64_t i = 0; i < 3; ++i)
    calls.push_back(pool.mesh->rank(i).call<&Solver::wait_below>(2));
  EXPECT_EQ(first_of(calls).get(), 2u);
  EXPECT_EQ(calls[2].get(), 2);
  calls.pop_back();
  auto second = first_of(calls);
  EXPECT_FALSE(second.wait_for(20ms));
  pool.mesh->rank(1).call<&Solver::open>().get();
  EXPECT_EQ(second.get(), 1u);
  auto never = first_of(calls[0], pool.mesh->rank(1).call<&Solver::wait_below>(2));
  EXPECT_FALSE(never.wait_for(10ms));
  never.cancel();
  EXPECT_THAT([&] { (void)never.get(); }, throws_error(ErrorCode::kCancelled, "cancelled"));
  EXPECT_FALSE(calls[0].ready()) << "a cancelled wait cancels no call";
  pool.mesh->rank(0).call<&Solver::open>().get();
  EXPECT_EQ(calls[0].get(), 0);
}

TEST(FirstOf, ADroppedWaitForAStreamLosesNoResult) {
  Pool pool(2);
  auto stream = pool.mesh->slice({{"worker", 0, 1}}).stream<&Solver::wait_below>(1);
  auto other = pool.mesh->rank(1).call<&Solver::wait_below>(2);
  auto next = std::make_optional(stream.next());
  const auto first = first_of(*next, other);
  next.reset();
  pool.mesh->rank(0).call<&Solver::open>().get();
  EXPECT_EQ(stream.next().get(10s)->result.value(), 0);
  EXPECT_FALSE(first.ready());
  other.cancel();
}

TEST(FirstOf, AnErrorCountsAsDoneAndNoFuturesAreRefused) {
  Pool pool(2);
  auto waits = pool.mesh->rank(0).call<&Solver::wait_below>(1);
  auto fails = pool.mesh->rank(1).call<&Solver::rank_from>(9);
  EXPECT_EQ(first_of(waits, fails).get(), 1u);
  EXPECT_THAT([&] { (void)fails.get(); }, throws_error(ErrorCode::kNotFound, "no such shelf"));
  EXPECT_THAT([] { (void)first_of(std::vector<Future<int>>()); },
              throws_error(ErrorCode::kInvalidArgument, "at least one"));
  waits.cancel();
}

TEST(FirstOf, IsAwaitedInHandlersBeforeTheFutureItself) {
  Pool pool(3);
  const auto foreman = pool.driver.host<Foreman>("foreman");
  EXPECT_EQ(foreman.call<&Foreman::fastest>(pool.mesh->ref(), 2).get(), 2);
  EXPECT_EQ(pool.mesh->reduce<&Solver::rank>(sum).get(), 3) << "no actor waits any more";
}

TEST(Choose, CallsTheActorForWhichFewerCallsWait) {
  Pool pool(2);
  std::vector<Future<std::int64_t>> busy;
  for (int i = 0; i < 3; ++i) busy.push_back(pool.mesh->rank(0).call<&Solver::wait_below>(1));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(pool.mesh->choose<&Solver::rank>().get(), 1);
  for (auto& call : busy) call.cancel();
}

TEST(Choose, LeavesOutADeadActor) {
  Pool pool(2);
  pool.kill(0);
  EXPECT_THAT([&] { (void)pool.mesh->rank(0).call<&Solver::rank>().get(); },
              throws_error(ErrorCode::kPeerDied, "died: SIGKILL"));
  auto busy = pool.mesh->rank(1).call<&Solver::wait_below>(2);
  std::vector<Future<std::int64_t>> chosen;
  for (int i = 0; i < 20; ++i) chosen.push_back(pool.mesh->choose<&Solver::rank>());
  pool.mesh->rank(1).call<&Solver::open>().get();
  for (auto& call : chosen) EXPECT_EQ(call.get(), 1);
  EXPECT_EQ(busy.get(), 1);
}

TEST(Scatter, SendsNothingIfOneArgumentIsTooLarge) {
  Pool pool(2);
  const std::vector<std::string> notes{"small", std::string(65 * 1024 * 1024, 'x')};
  EXPECT_THAT([&] { (void)pool.mesh->scatter<&Solver::note>(notes); },
              throws_error(ErrorCode::kInvalidArgument, "the limit is"));
  EXPECT_EQ(pool.mesh->rank(0).call<&Solver::rank>().get(), 0);
  EXPECT_EQ(Solver::noted, 0) << "calls of one caller run in order";
}

TEST(Choose, ReachesAllActorsAndOneAlone) {
  Pool pool(3);
  std::set<std::int64_t> reached;
  EXPECT_TRUE(eventually([&] {
    reached.insert(pool.mesh->choose<&Solver::rank>().get());
    return reached.size() == 3;
  }));
  EXPECT_EQ(pool.mesh->slice({{"worker", 2, 3}}).choose<&Solver::rank>().get(), 2);
}

}  // namespace
}  // namespace weft::actors

// map(): one call per item, each to the least loaded actor.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/actors/system/pool.h"
#include "tests/support/eventually.h"
#include "tests/support/thrown_error.h"

namespace weft::actors {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::throws_error;

std::vector<int> numbers_up_to(int end) {
  std::vector<int> numbers;
  for (int i = 0; i < end; ++i) numbers.push_back(i);
  return numbers;
}

TEST(Map, GivesOneResultPerItem) {
  Pool pool(3);
  std::map<std::size_t, int> results;
  for (auto&& [item, result] : pool.mesh->map<&Solver::square>(numbers_up_to(200)))
    EXPECT_TRUE(results.emplace(item, result.value()).second) << item;
  ASSERT_EQ(results.size(), 200u);
  for (const auto& [item, result] : results) EXPECT_EQ(result, static_cast<int>(item * item));
}

TEST(Map, TakesAnyRangeOfArgumentsOrTuplesOfThem) {
  Pool pool(2);
  const auto total = [](auto stream) {
    int all = 0;
    for (auto&& [item, result] : stream) all += result.value();
    return all;
  };
  EXPECT_EQ(total(pool.mesh->map<&Solver::square>(std::list<short>{1, 2, 3})), 14);
  EXPECT_EQ(total(pool.mesh->map<&Solver::square>(std::set<int>{1, 2, 3})), 14);
  const std::vector<std::tuple<int, int>> pairs{{2, 3}, {4, 5}};
  EXPECT_EQ(total(pool.mesh->map<&Solver::product>(pairs)), 26);
  EXPECT_EQ(total(pool.mesh->map<&Solver::square>(std::vector<int>())), 0);
  int noted = 0;
  const std::vector<std::string> notes{"a", "b"};
  for (auto&& [item, result] : pool.mesh->map<&Solver::note>(notes)) noted += result.ok();
  EXPECT_EQ(noted, 2);
}

TEST(Map, AnErrorOfAHandlerIsTheResultOfItsItemOnly) {
  Pool pool(2);
  int failed = 0;
  for (auto&& [item, result] :
       pool.mesh->map<&Solver::rank_from>(std::vector<std::int64_t>{0, 5, 0, 5})) {
    EXPECT_EQ(result.ok(), item % 2 == 0);
    if (result.ok()) continue;
    EXPECT_EQ(result.error().message(), "no such shelf");
    ++failed;
  }
  EXPECT_EQ(failed, 2);
}

TEST(Map, BoundsTheCallsPerActorAndGivesTheRestToTheOthers) {
  Pool pool(2);
  auto stream = pool.mesh->map<&Solver::claim>(numbers_up_to(10), {.in_flight = 1});
  // Rank 0 holds its first item, and gets no other.
  for (int i = 0; i < 9; ++i) EXPECT_EQ(stream.next().get()->result.value(), 1);
  EXPECT_TRUE(eventually([] { return Solver::claimed == 10; }));
  auto last = stream.next();
  EXPECT_FALSE(last.wait_for(20ms));
  pool.mesh->rank(0).call<&Solver::open>().get();
  EXPECT_EQ(last.get()->result.value(), 0);
  EXPECT_FALSE(stream.next().get());
  EXPECT_THAT([&] { (void)pool.mesh->map<&Solver::claim>(numbers_up_to(1), {.in_flight = 0}); },
              throws_error(ErrorCode::kInvalidArgument, "in_flight 0"));
}

TEST(Map, SendsTheNextItemWhenAResultArrivesUpToABound) {
  Pool pool(1);
  auto stream = pool.mesh->map<&Solver::claim_once>(numbers_up_to(100), {.in_flight = 3});
  pool.mesh->rank(0).call<&Solver::is_waiting>().get();
  // Nothing is taken: items are sent until 2 * 3 results wait, and 3 more calls may be under way.
  EXPECT_TRUE(eventually([&] {
    pool.mesh->rank(0).call<&Solver::open>().get();
    return Solver::claimed >= 6;
  }));
  for (int i = 0; i < 50; ++i) pool.mesh->rank(0).call<&Solver::open>().get();
  EXPECT_LE(Solver::claimed, 9);
  int results = 0;
  const std::jthread opens([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) pool.mesh->rank(0).call<&Solver::open>().get();
  });
  for (auto&& [item, result] : stream) results += result.ok();
  EXPECT_EQ(results, 100);
}

TEST(Map, AnItemOfADeadActorGoesToAnotherOneIfTheMethodIsIdempotent) {
  Pool pool(3);
  auto stream = pool.mesh->map<&Solver::claim>(numbers_up_to(50));
  ASSERT_TRUE(eventually([&] { return pool.mesh->rank(0).call<&Solver::is_waiting>().get(); }));
  pool.kill(0);
  int results = 0;
  for (auto&& [item, result] : stream) {
    EXPECT_GT(result.value(), 0) << item;
    ++results;
  }
  EXPECT_EQ(results, 50);
}

TEST(Map, AnItemOfADeadActorFailsIfItMayHaveRun) {
  Pool pool(2);
  auto stream = pool.mesh->map<&Solver::claim_once>(numbers_up_to(50), {.in_flight = 1});
  ASSERT_TRUE(eventually([&] { return pool.mesh->rank(0).call<&Solver::is_waiting>().get(); }));
  pool.kill(0);
  int failed = 0;
  int results = 0;
  for (auto&& [item, result] : stream) {
    ++results;
    if (result.ok()) continue;
    ++failed;
    EXPECT_EQ(result.error().code(), ErrorCode::kPeerDied);
    EXPECT_EQ(result.error().progress(), CallProgress::kMayHaveStarted);
    EXPECT_THAT(result.error().message(), testing::HasSubstr("whether it ran is unknown"));
  }
  EXPECT_EQ(results, 50);
  EXPECT_EQ(failed, 1) << "the dead actor gets no more items";
}

TEST(Map, WithoutActorsTheRestFailsWithTheReason) {
  Pool pool(2);
  pool.kill(0);
  pool.kill(1);
  std::size_t failed = 0;
  for (auto&& [item, result] : pool.mesh->map<&Solver::square>(numbers_up_to(2000))) {
    EXPECT_THAT(result.error().message(), testing::HasSubstr("died: SIGKILL"));
    ++failed;
  }
  EXPECT_EQ(failed, 2000u);
}

TEST(Map, AStoppedActorGetsNoMoreItems) {
  Pool pool(2);
  pool.mesh->rank(0).stop().get();
  for (auto&& [item, result] : pool.mesh->map<&Solver::claim_once>(numbers_up_to(50)))
    EXPECT_EQ(result.value(), 1) << item;
}

TEST(Map, AnActorThatEndedItselfGetsNoMoreItems) {
  Pool pool(2);
  pool.mesh->rank(0).call<&Solver::leave>().get();
  for (auto&& [item, result] : pool.mesh->map<&Solver::claim_once>(numbers_up_to(50)))
    EXPECT_EQ(result.value(), 1) << item;
  System& worker = *pool.workers[0];  // the same without a connection
  const auto local =
      worker.spawn_mesh<Solver>("local", MeshShape{{"worker", 2}}, {worker.self(), worker.self()});
  local.rank(0).call<&Solver::leave>().get();
  for (auto&& [item, result] : local.map<&Solver::claim_once>(numbers_up_to(50)))
    EXPECT_EQ(result.value(), 1) << item;
}

TEST(Map, ItemsThatWaitAtAStoppedActorGoToAnotherOne) {
  Pool pool(2);
  auto stream = pool.mesh->map<&Solver::claim_once>(numbers_up_to(30), {.in_flight = 3});
  ASSERT_TRUE(eventually([&] { return pool.mesh->rank(0).call<&Solver::is_waiting>().get(); }));
  pool.mesh->rank(0).stop().get();
  int failed = 0;
  int results = 0;
  for (auto&& [item, result] : stream) {
    ++results;
    failed += !result.ok();
  }
  EXPECT_EQ(results, 30);
  EXPECT_EQ(failed, 1) << "only the item that had been started";
}

TEST(Map, ItemsGoToTheOtherActorsWhileOneHasNoRoom) {
  Pool pool(2);
  auto blocks = pool.mesh->rank(0).call<&Solver::wait_below>(1);
  set_on_actor_thread();  // so that tell() does not block
  const auto fill = [&] { return pool.mesh->rank(0).tell<&Solver::note>("full"); };
  do {
    while (fill()) {
    }
    // The reply follows the report of the credit for which the messages made this process ask.
    (void)pool.mesh->rank(0).call<&Solver::is_waiting>().get();
  } while (fill());
  set_on_actor_thread(false);
  for (auto&& [item, result] : pool.mesh->map<&Solver::claim_once>(numbers_up_to(50)))
    EXPECT_EQ(result.value(), 1) << item;
  EXPECT_FALSE(blocks.ready());
  pool.mesh->rank(0).call<&Solver::open>().get();
  EXPECT_EQ(blocks.get(), 0);
}

TEST(Map, AnActorThatIsRestartedGetsItemsAgain) {
  System driver(test::system_options("driver"));
  System old(test::system_options("old")), next(test::system_options("next"));
  driver.listen({"127.0.0.1", 0});
  const auto address_in = [&](System& system) {
    system.listen({"127.0.0.1", 0});
    (void)system.host<Solver>("solver");
    return ActorAddress{system.self(), actor_id_of("solver"), "solver", driver.self()};
  };
  const ActorAddress address = address_in(old);
  const ActorAddress moved = address_in(next);
  driver.supervise(address);
  const MeshRef<Solver> mesh(driver, "pool", MeshShape{{"worker", 1}},
                             {std::make_shared<const ActorAddress>(address)});
  auto stream = mesh.map<&Solver::claim_once>(numbers_up_to(20), {.in_flight = 1});
  ASSERT_TRUE(eventually([&] { return mesh.rank(0).call<&Solver::is_waiting>().get(); }));
  driver.declare_dead(address.process.id, Error(ErrorCode::kPeerDied, "old died: SIGKILL"));
  EXPECT_EQ(stream.next().get()->result.error().code(), ErrorCode::kPeerDied);
  driver.restart_ends(address, moved);
  int results = 0;
  for (auto&& [item, result] : stream) results += result.ok();
  EXPECT_EQ(results, 19);
}

TEST(Map, DestroyedEarlyItCancelsItsCallsAndSendsNoMore) {
  Pool pool(1);
  {
    auto stream = pool.mesh->map<&Solver::claim_once>(numbers_up_to(50));
    ASSERT_TRUE(eventually([&] { return pool.mesh->rank(0).call<&Solver::is_waiting>().get(); }));
  }
  EXPECT_TRUE(eventually([] { return Solver::cancelled == 1; }));
  EXPECT_EQ(pool.mesh->rank(0).call<&Solver::square>(3).get(), 9);
  EXPECT_EQ(Solver::claimed, 1) << "the second call was cancelled in the mailbox";
}

TEST(Map, CancelledItGivesAResultForEachItem) {
  Pool pool(1);
  auto stream = pool.mesh->map<&Solver::claim_once>(numbers_up_to(50));
  stream.cancel();
  int cancelled = 0;
  for (auto&& [item, result] : stream) cancelled += result.error().code() == ErrorCode::kCancelled;
  EXPECT_EQ(cancelled, 50);
}

TEST(Map, TheDeadlineHoldsForEachItem) {
  Pool pool(1);
  int late = 0;
  auto stream =
      pool.mesh->within(50ms).map<&Solver::claim_once>(numbers_up_to(3), {.in_flight = 1});
  for (auto&& [item, result] : stream)
    late += result.error().code() == ErrorCode::kDeadlineExceeded;
  EXPECT_EQ(late, 3);
}

}  // namespace
}  // namespace weft::actors

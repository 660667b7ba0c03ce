#include "core/simulation/simulate_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/simulation/max_min_shares.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

Movement over(std::vector<std::uint32_t> links, double amount) {
  Movement movement;
  for (const std::uint32_t link : links) movement.link_uses.push_back({link, 1});
  movement.amount = amount;
  return movement;
}

TEST(SimulateTasks, TasksStartWhenAllThatTheyWaitForIsOver) {
  TaskGraph graph;
  const TaskId a = graph.add(2), b = graph.add(3), c = graph.add(4), d = graph.add(1);
  graph.add_dependency(c, a);
  graph.add_dependency(c, b);
  graph.add_dependency(d, c);
  const TaskTimes times = simulate_tasks(graph);
  EXPECT_TRUE(times.all_ended());
  EXPECT_THAT(times.start, ElementsAre(0, 0, 3, 7));
  EXPECT_THAT(times.end, ElementsAre(2, 3, 7, 8));
  EXPECT_EQ(times.critical_predecessor[c.value()], b);
  EXPECT_EQ(times.critical_predecessor[a.value()], std::nullopt);
}

TEST(SimulateTasks, TasksOfACycleNeverEnd) {
  TaskGraph graph;
  const TaskId a = graph.add(1), b = graph.add(1), c = graph.add(1), d = graph.add(1);
  graph.add_dependency(b, a);
  graph.add_dependency(b, c);
  graph.add_dependency(c, b);
  graph.add_dependency(d, c);
  EXPECT_THAT(simulate_tasks(graph).has_ended, ElementsAre(true, false, false, false));
  EXPECT_THAT(find_cycle(graph), testing::UnorderedElementsAre(b, c));
}

TEST(SimulateTasks, MovementsUnderWayShareTheirLinksByWeight) {
  TaskGraph graph;
  graph.links.rates = {4, 1};
  const TaskId narrow = graph.add(over({0, 1}, 6));
  const TaskId wide = graph.add(over({0}, 9));
  EXPECT_THAT(simulate_tasks(graph).end, ElementsAre(6, 3))
      << "what a slow link holds back leaves the rest to others";
  EXPECT_EQ(narrow, TaskId(0));
  EXPECT_EQ(wide, TaskId(1));
  TaskGraph weighted;
  weighted.links.rates = {1};
  Movement half = over({0}, 6);
  half.weight = 0.5;
  weighted.add(over({0}, 6));
  weighted.add(half);
  EXPECT_THAT(simulate_tasks(weighted).end, ElementsAre(9, 12));
}

TEST(SimulateTasks, AQueueServesFirstComeFirstServedAndSplitsItsLastPlace) {
  TaskGraph graph;
  graph.links.rates = {1};
  graph.links.queues = 1;
  Movement first = over({0}, 2), second = over({0}, 2);
  first.queue = second.queue = {0, 1, 1};
  graph.add(first);
  const TaskId behind = graph.add(second);
  const TaskTimes times = simulate_tasks(graph);
  EXPECT_THAT(times.end, ElementsAre(2, 4));
  EXPECT_EQ(times.start[behind.value()], 2);
  EXPECT_EQ(times.critical_predecessor[behind.value()], TaskId(0)) << "whose end made room";
  // The second transfer gets a third of a queue slot, and so a third of its weight.
  TaskGraph split;
  split.links = graph.links;
  second.queue->max_slots = 4.0 / 3;
  split.add(first);
  split.add(second);
  EXPECT_THAT(simulate_tasks(split).end, ElementsAre(8.0 / 3, 4));
}

TEST(SimulateTasks, FifoLinksServeTheFirstMovementFirst) {
  TaskGraph graph;
  graph.links.sharing = SharedLinks::Sharing::kFifo;
  graph.links.rates = {1, 2};
  const TaskId work = graph.add(1);
  const TaskId late = graph.add(over({0}, 3));
  graph.add_dependency(late, work);
  graph.add(over({0, 1}, 4));
  EXPECT_THAT(simulate_tasks(graph).start, ElementsAre(0, 4, 0));
  EXPECT_EQ(simulate_tasks(graph).critical_predecessor[late.value()], TaskId(2));
}

TEST(SimulateTasks, FifoLinksSupportNeitherQueuesNorEarlyStarts) {
  TaskGraph graph;
  graph.links.sharing = SharedLinks::Sharing::kFifo;
  graph.links.rates = {1};
  graph.links.queues = 1;
  Movement queued = over({0}, 1), early = over({0}, 1);
  queued.queue = {0, 1, 1};
  early.early_chunk = 1;
  for (const Movement& movement : {queued, early}) {
    TaskGraph refused = graph;
    refused.add(movement);
    EXPECT_THAT(
        [&] { simulate_tasks(refused); },
        test::throws_error(ErrorCode::kInvalidArgument, "support neither queues nor early starts"));
  }
}

TEST(SimulateTasks, AReceiverThatIsNotReadyTakesOnlyWhatItsBufferHolds) {
  TaskGraph graph;
  graph.links.rates = {1};
  graph.links.buffers = {4};
  const TaskId computes = graph.add(20), ready = graph.add();
  graph.add_dependency(ready, computes);
  Movement movement = over({0}, 7);
  movement.receivers = {{ready, 0}};
  const TaskId moves = graph.add(movement);
  EXPECT_EQ(simulate_tasks(graph).end[moves.value()], 27) << "not early";
  EXPECT_EQ(simulate_tasks(graph).start[moves.value()], 20);
  EXPECT_EQ(simulate_tasks(graph).critical_predecessor[moves.value()], ready);
  TaskGraph early;
  early.links = graph.links;
  const auto ready_after = [](TaskGraph& one, double seconds) {
    const TaskId task = one.add(seconds), then = one.add();
    one.add_dependency(then, task);
    return then;
  };
  movement.receivers = {{ready_after(early, 20), 0}};
  movement.early_chunk = 3;
  early.add(movement);
  EXPECT_EQ(simulate_tasks(early).end.back(), 24) << "one chunk of three fits";
  movement.early_chunk = 7;
  TaskGraph whole;
  whole.links = graph.links;
  whole.links.buffers = {7};
  movement.receivers = {{ready_after(whole, 20), 0}};
  whole.add(movement);
  EXPECT_EQ(simulate_tasks(whole).end.back(), 7);
}

TEST(SimulateTasks, UnknownLinksAndSlowReceiversAreErrors) {
  TaskGraph graph;
  graph.links.rates = {1};
  graph.add(over({1}, 1));
  EXPECT_THAT(
      [&] { simulate_tasks(graph); },
      test::throws_error(ErrorCode::kInvalidArgument, "uses link 1, but there are only 1 links"));
  TaskGraph slow;
  slow.links.rates = {1};
  Movement movement = over({0}, 1);
  movement.receivers = {{slow.add(1), 0}};
  slow.add(movement);
  EXPECT_THAT([&] { simulate_tasks(slow); },
              test::throws_error(ErrorCode::kInvalidArgument,
                                 "makes a receiver ready and must take no time"))
      << "who makes a receiver ready takes no time";
}

/// Max-min fairness: every user has a full link on which no other user gets more.
TEST(MaxMinShares, EveryUserHasAFullLinkOnWhichNoUserGetsMore) {
  PhiloxStream random(20261123);
  MaxMinShares shares;
  for (int round = 0; round < 300; ++round) {
    std::vector<double> capacities;
    for (std::uint64_t i = 0; i < 2 + random.below(6); ++i)
      capacities.push_back(1 + static_cast<double>(random.below(9)));
    std::vector<std::vector<std::pair<std::uint32_t, double>>> uses(1 + random.below(12));
    shares.start_round(capacities);
    for (std::uint32_t user = 0; user < uses.size(); ++user) {
      for (std::uint32_t link = 0; link < capacities.size(); ++link) {
        if (random.below(2) == 0) continue;
        uses[user].push_back({link, 0.5 + 0.25 * random.below(7)});
        shares.add_use(user, link, uses[user].back().second);
      }
    }
    std::vector<double> got(uses.size(), -1);
    shares.compute_shares([&](std::uint32_t user, double share) { got[user] = share; });
    std::vector<double> carried(capacities.size(), 0), most(capacities.size(), 0);
    for (std::uint32_t user = 0; user < uses.size(); ++user) {
      for (const auto& [link, demand] : uses[user]) {
        carried[link] += got[user] * demand;
        most[link] = std::max(most[link], got[user]);
      }
    }
    for (std::size_t link = 0; link < capacities.size(); ++link)
      EXPECT_LE(carried[link], capacities[link] * (1 + 1e-9));
    for (std::uint32_t user = 0; user < uses.size(); ++user) {
      EXPECT_EQ(got[user] < 0, uses[user].empty());
      const bool held = std::ranges::any_of(uses[user], [&](const auto& use) {
        return carried[use.first] >= capacities[use.first] * (1 - 1e-9) &&
               got[user] >= most[use.first] * (1 - 1e-9);
      });
      EXPECT_TRUE(held || uses[user].empty()) << "user " << user << " of round " << round;
    }
  }
}

}  // namespace
}  // namespace weft

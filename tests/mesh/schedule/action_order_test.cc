#include "mesh/schedule/action_order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "mesh/schedule/named_schedules.h"

namespace weft::mesh {
namespace {

std::string text_of(const Schedule& schedule, const std::vector<OrderedAction>& order) {
  std::string text;
  for (const OrderedAction& ordered : order) {
    text += (text.empty() ? "" : " ") +
            to_string(schedule.actors[ordered.place.actor][ordered.place.index]);
  }
  return text;
}

TEST(ActionOrder, ActionsComeInTheOrderOfTheirEarliestStart) {
  const Schedule schedule = make_schedule("1f1b", 2, 3);
  EXPECT_EQ(text_of(schedule, order_actions(schedule, chain_edges(2))),
            "0F0 0F1 1F0 1B0 0B0 1F1 1B1 0F2 0B1 1F2 1B2 0B2");
}

TEST(ActionOrder, CountsTheTimesOfActionsAndTransfers) {
  const Schedule schedule = make_schedule("1f1b", 2, 1);
  VocabularyTimes times{2, 3, 1};
  times.transfer = 0.5;
  std::vector<double> starts;
  for (const OrderedAction& ordered : order_actions(schedule, chain_edges(2), times))
    starts.push_back(ordered.start);
  EXPECT_EQ(starts, (std::vector<double>{0, 2.5, 4.5, 9}));
}

TEST(ActionOrder, HoldsEveryActionOnceAfterItsDependencies) {
  for (const char* name : {"gpipe", "1f1b", "eager-1f1b"}) {
    const Schedule schedule = make_schedule(name, 4, 6);
    auto edges = chain_edges(4);
    edges.push_back({0, 3, 0});
    const auto order = order_actions(schedule, edges);
    EXPECT_EQ(order.size(), 4u * 6u * 2u);
    EXPECT_TRUE(std::is_sorted(
        order.begin(), order.end(),
        [](const OrderedAction& a, const OrderedAction& b) { return a.start < b.start; }));
    const auto at = [&](const Action& wanted) {
      return std::find_if(order.begin(), order.end(), [&](const OrderedAction& ordered) {
        return schedule.actors[ordered.place.actor][ordered.place.index] == wanted;
      });
    };
    for (int microbatch = 0; microbatch < 6; ++microbatch) {
      for (const StageEdge& edge : edges) {
        EXPECT_LE(at({edge.from, ActionKind::kForward, microbatch})->finish,
                  at({edge.to, ActionKind::kForward, microbatch})->start);
        EXPECT_LE(at({edge.to, ActionKind::kBackward, microbatch})->finish,
                  at({edge.from, ActionKind::kBackward, microbatch})->start);
      }
    }
  }
}

TEST(ActionHistory, AForwardIsOverWhenItsGradientHasComeBack) {
  // 0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3 | 1F0 1B0 1F1 1B1 ...
  const Schedule schedule = make_schedule("1f1b", 2, 4);
  const ActionHistory history(schedule, chain_edges(2), order_actions(schedule, chain_edges(2)));
  // 1F0 is certainly over before 0B0, the third action of actor 0. 1F1 is over before 0B1.
  EXPECT_EQ(history.first_action_after({1, 0}, 0), 2u);
  EXPECT_EQ(history.first_action_after({1, 2}, 0), 4u);
  // 0B0 is over before actor 1 can run 1F2, its fifth action. The last 0B is never known to be
  // over.
  EXPECT_EQ(history.first_action_after({0, 2}, 1), 4u);
  EXPECT_EQ(history.first_action_after({0, 7}, 1), schedule.actors[1].size());
}

}  // namespace
}  // namespace weft::mesh

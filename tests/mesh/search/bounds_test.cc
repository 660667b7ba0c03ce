#include "mesh/search/internal/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <tuple>

#include "mesh/schedule/named_schedules.h"
#include "mesh/search/internal/search_evaluator.h"

namespace weft::mesh {
namespace {

SearchRequest request_of(StagePlacement placement, int p, int m, double transfer, double memory) {
  SearchRequest request;
  const int chunks = placement == StagePlacement::kOnePerActor ? 1 : 2;
  request.actor_of_stage = place_stages(placement, p, chunks);
  request.microbatches = m;
  request.costs = split_stages(uniform_costs(p, {}, transfer), chunks);
  if (memory > 0) request.memory_of_actor.assign(p, memory);
  return request;
}

/// Collects all orders of an actor's actions that keep microbatches in order and run F before I
/// before W.
void add_orders(const std::vector<int>& stages, int microbatches,
                std::vector<std::array<int, 3>>& done, std::vector<Action>& order,
                std::vector<std::vector<Action>>& all) {
  if (order.size() == 3 * stages.size() * microbatches) {
    all.push_back(order);
    return;
  }
  constexpr std::array kKinds{ActionKind::kForward, ActionKind::kInputGrad,
                              ActionKind::kWeightGrad};
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (std::size_t kind = 0; kind < 3; ++kind) {
      if (done[s][kind] >= (kind == 0 ? microbatches : done[s][kind - 1])) continue;
      order.push_back({stages[s], kKinds[kind], done[s][kind]++});
      add_orders(stages, microbatches, done, order, all);
      --done[s][kind];
      order.pop_back();
    }
  }
}

/// Returns the shortest step of all possible schedules, or infinity if none fits in memory.
double least_of_all(const SearchRequest& request) {
  SearchEvaluator evaluator(request);
  Schedule schedule = make_schedule("1f1b", 1, 1);
  schedule.stages = request.actor_of_stage.size();
  schedule.microbatches = request.microbatches;
  schedule.actor_of_stage = request.actor_of_stage;
  schedule.actors.assign(num_actors(request.actor_of_stage), {});
  std::vector<std::vector<std::vector<Action>>> orders(schedule.actors.size());
  for (std::size_t actor = 0; actor < orders.size(); ++actor) {
    std::vector<int> stages;
    for (int s = 0; s < schedule.stages; ++s) {
      if (request.actor_of_stage[s] == static_cast<int>(actor)) stages.push_back(s);
    }
    std::vector<std::array<int, 3>> done(stages.size(), {0, 0, 0});
    std::vector<Action> order;
    add_orders(stages, request.microbatches, done, order, orders[actor]);
  }
  double least = std::numeric_limits<double>::infinity();
  const auto choose = [&](const auto& again, std::size_t actor) -> void {
    if (actor == orders.size()) {
      const SearchEvaluator::PlayOutcome outcome = evaluator.play(schedule, least);
      if (outcome.finishes && outcome.fits && !outcome.too_slow)
        least = std::min(least, outcome.step);
      return;
    }
    for (const std::vector<Action>& order : orders[actor]) {
      schedule.actors[actor] = order;
      again(again, actor + 1);
    }
  };
  choose(choose, 0);
  return least;
}

TEST(Bounds, NoScheduleOfAllIsFasterAndTheSearchFindsTheFastest) {
  const unsigned seed = 31;
  std::mt19937 random(seed);
  const auto below = [&](double most) { return most * (random() % 1000) / 1000; };
  const std::array sizes{std::tuple(StagePlacement::kOnePerActor, 2, 2),
                         std::tuple(StagePlacement::kOnePerActor, 2, 3),
                         std::tuple(StagePlacement::kOnePerActor, 3, 2),
                         std::tuple(StagePlacement::kOnePerActor, 2, 4),
                         std::tuple(StagePlacement::kOnePerActor, 3, 3),
                         std::tuple(StagePlacement::kVShaped, 2, 1),
                         std::tuple(StagePlacement::kLooped, 2, 1)};
  int reached = 0;
  for (int round = 0; round < 21; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << " round " << round);
    const auto [placement, p, m] = sizes[round % sizes.size()];
    SearchRequest request = request_of(placement, p, m, 0, round % 3 == 0 ? 0 : 1 + below(2));
    const bool alike = round % 2 == 0, parts = round % 5 == 0;
    for (StageCosts& stage : request.costs.stages) {
      stage = alike ? StageCosts{}
                    : StageCosts{.forward = 0.2 + below(1),
                                 .input_grad = 0.2 + below(1),
                                 .weight_grad = below(1)};
      stage.for_weight_grad = round % 4 == 1 ? 0.5 : stage.activations;
      stage.reduce_grad = alike ? 0 : below(0.5);
    }
    for (EdgeCosts& edge : request.costs.edges) {
      edge.forward = edge.backward = alike ? 0.5 * (round % 4) : below(1.5);
      if (!parts) continue;
      edge.forward_timing.produced_at = edge.backward_timing.produced_at = 1 - below(0.5);
      edge.forward_timing.needed_at = edge.backward_timing.needed_at = below(0.5);
    }
    const double least = least_of_all(request);
    if (least == std::numeric_limits<double>::infinity()) continue;
    EXPECT_LE(lower_bound(request), lower_bound_in_memory(request));
    EXPECT_LE(lower_bound_in_memory(request), least * (1 + 1e-12));
    reached += lower_bound_in_memory(request) >= least * (1 - 1e-9) ? 1 : 0;
    request.budget = 200'000;
    EXPECT_NEAR(search_schedule(request).simulation.step_time, least, 1e-9);
  }
  EXPECT_GT(reached, 10) << "it says something";
}

TEST(Bounds, ProvesThatZbH1IsTheFastestInItsMemoryWithOneStagePerActor) {
  // Transfers take half an action; memory holds eight microbatches. The first actor is idle for 14
  // while the first microbatch is away: 22 after its forward, of which forwards fill 7. When its
  // last forward begins, 1 + 14 actions are left for the 23 until the last W: 7 idle. With its work
  // of 96, that is 117.
  SearchRequest request = request_of(StagePlacement::kOnePerActor, 8, 32, 0.5, 8);
  EXPECT_DOUBLE_EQ(lower_bound(request), 106.5);
  EXPECT_NEAR(lower_bound_in_memory(request), 117, 1e-6);
  EXPECT_DOUBLE_EQ(simulate(make_schedule("zb-h1", 8, 32), request.costs).makespan, 117);
  // With enough memory, the path to the last actor determines the bound.
  request.memory_of_actor.assign(8, 12);
  EXPECT_DOUBLE_EQ(lower_bound_in_memory(request), 106.5);
}

TEST(Bounds, OfAVIsMemoryTimesTimeWhereThereIsLittle) {
  // Stage 0 waits for its gradient for 16 actions of half a unit and 14 transfers; stage 15 for one
  // action. Each W adds another half. Each stage holds half an activation.
  const SearchRequest request = request_of(StagePlacement::kVShaped, 8, 32, 1, 4);
  // Each pair of stages has the same sum. The first microbatch reaches the last actor after seven
  // forwards and transfers.
  EXPECT_NEAR(lower_bound_in_memory(request), 7 * 1.5 + 32 * 0.5 * (16 + 28 + 1 + 1) / 4, 1e-6);
}

}  // namespace
}  // namespace weft::mesh

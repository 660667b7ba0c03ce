#include "mesh/search/internal/search_evaluator.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "core/base/error.h"
#include "mesh/schedule/named_schedules.h"

namespace weft::mesh {
namespace {

double below(std::mt19937& random, double most) { return most * (random() % 1000) / 1000; }

TensorTiming random_timing(std::mt19937& random) {
  TensorTiming timing;
  timing.exists = random() % 8 != 0;
  timing.produced_at = 1 - below(random, 0.5);
  timing.produced_at_weights = 1 - below(random, 0.5);
  timing.needed_at = below(random, 0.5);
  timing.needed_at_weights = random() % 2 == 0 ? 0 : below(random, 0.3);
  return timing;
}

SearchRequest random_request(std::mt19937& random, const std::vector<int>& actor_of_stage,
                             int microbatches) {
  SearchRequest request;
  request.actor_of_stage = actor_of_stage;
  request.microbatches = microbatches;
  const int stages = actor_of_stage.size();
  request.costs = uniform_costs(stages, {});
  const bool parts = random() % 2 == 0, bytes = random() % 2 == 0, recomputes = random() % 4 == 0;
  for (StageCosts& stage : request.costs.stages) {
    stage.forward = 0.2 + below(random, 2);
    stage.input_grad = 0.2 + below(random, 2);
    stage.weight_grad = below(random, 2);
    stage.for_weight_grad = below(random, 1);
    stage.recompute = 0.5;
    stage.recomputes = recomputes;
    stage.retained_for_recompute = 0.25;
    stage.reduce_grad = below(random, 1);
    stage.optimizer = below(random, 1);
  }
  request.costs.edges.push_back({{0, stages - 1, 0}, 0, 0});
  for (EdgeCosts& edge : request.costs.edges) {
    edge.forward = below(random, 2);
    edge.backward = below(random, 2);
    if (bytes) edge.edge.bytes = random() % 3;
    if (!parts) continue;
    edge.forward_timing = random_timing(random);
    edge.backward_timing = random_timing(random);
  }
  request.costs.dispatch_time = below(random, 0.1);
  request.costs.exchange = below(random, 1);
  request.simulation.credits = static_cast<int>(random() % 4);
  if (random() % 2 == 0) {
    const std::size_t actors = num_actors(actor_of_stage);
    for (std::size_t actor = 0; actor < actors; ++actor) {
      request.costs.nic_of_actor.push_back(static_cast<int>(random() % 3 == 0 ? 0 : actor));
    }
  }
  return request;
}

/// Swaps random neighbouring actions if microbatches stay in order. The result may be unplayable
/// for other reasons.
void shuffle(std::mt19937& random, Schedule& schedule) {
  for (int i = 0; i < 6; ++i) {
    std::vector<Action>& actions = schedule.actors[random() % schedule.actors.size()];
    const std::size_t at = random() % (actions.size() - 1);
    const Action &a = actions[at], &b = actions[at + 1];
    const bool ordered = a.kind == b.kind ||
                         (gives_input_grad(a.kind) && gives_input_grad(b.kind)) ||
                         (gives_weight_grad(a.kind) && gives_weight_grad(b.kind));
    if (a.stage != b.stage || !ordered) std::swap(actions[at], actions[at + 1]);
  }
}

TEST(SearchEvaluator, SaysWhatTheSimulatorSays) {
  const unsigned seed = 7;
  std::mt19937 random(seed);
  int finished = 0;
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << " round " << round);
    const NamedSchedule& named = named_schedules()[round % named_schedules().size()];
    const int p = 2 + static_cast<int>(random() % 3), m = 2 + static_cast<int>(random() % 6);
    Schedule schedule = make_schedule({std::string(named.name), p, m, 0, 0});
    for (std::vector<Action>& actions : schedule.actors)
      for (Action& action : actions) action.joins_previous = false;
    const SearchRequest request = random_request(random, schedule.actor_of_stage, m);
    ASSERT_TRUE(SearchEvaluator::supports(request));
    SearchEvaluator evaluator(request);
    for (int change = 0; change < 3; ++change) {
      const SearchEvaluator::PlayOutcome outcome =
          evaluator.play(schedule, std::numeric_limits<double>::infinity(), true);
      std::optional<ScheduleSimulation> expected;
      try {
        expected = simulate(schedule, request.costs, request.simulation);
      } catch (const Error&) {
      }
      ASSERT_EQ(outcome.finishes, expected.has_value());
      if (expected) {
        ++finished;
        const double near = 1e-12 * expected->step_time;
        ASSERT_NEAR(outcome.step, expected->step_time, near);
        ASSERT_NEAR(outcome.makespan, expected->makespan, near);
        ASSERT_NEAR(outcome.mean_action_end, expected->mean_action_end, near);
        ASSERT_NEAR(outcome.peak, expected->peak(), 1e-9);
        for (std::size_t actor = 0; actor < expected->actors.size(); ++actor) {
          const std::vector<SimulatedAction>& actions = expected->actors[actor].actions;
          for (std::size_t i = 0; i < actions.size(); ++i) {
            ASSERT_NEAR(evaluator.span(actor, i).first, actions[i].start, near);
            ASSERT_NEAR(evaluator.span(actor, i).second, actions[i].end, near);
          }
        }
        for (const auto& [actor, at] : evaluator.blocked_by_order(schedule)) {
          const auto& actions = expected->actors[actor].actions;
          ASSERT_NEAR(actions[static_cast<std::size_t>(at)].start,
                      actions[static_cast<std::size_t>(at) - 1].end, near);
        }
        EXPECT_FALSE(evaluator.play(schedule, outcome.step * (1 + 1e-9)).too_slow);
        EXPECT_TRUE(evaluator.play(schedule, outcome.step * (1 - 1e-9)).too_slow);
      }
      shuffle(random, schedule);
    }
  }
  EXPECT_GT(finished, 500);
}

TEST(SearchEvaluator, KnowsMemoryCaps) {
  SearchRequest request;
  request.actor_of_stage = place_stages(StagePlacement::kOnePerActor, 4, 1);
  request.microbatches = 8;
  request.costs = uniform_costs(4, {});
  request.memory_of_actor.assign(4, 4);
  EXPECT_TRUE(SearchEvaluator(request).play(make_schedule("1f1b", 4, 8)).fits);
  EXPECT_FALSE(SearchEvaluator(request).play(make_schedule("eager-1f1b", 4, 8)).fits);
  request.costs.edges[0].edge.bytes = 1;
  EXPECT_FALSE(SearchEvaluator(request).play(make_schedule("1f1b", 4, 8)).fits)
      << "tensors take memory too";
}

TEST(SearchEvaluator, LeavesToTheSimulatorWhatItDoesNotKnow) {
  SearchRequest request;
  request.actor_of_stage = {0, 1};
  request.costs = uniform_costs(2, {});
  EXPECT_TRUE(SearchEvaluator::supports(request));
  SearchRequest other = request;
  other.costs.nic_of_actor = {0, 1};
  EXPECT_TRUE(SearchEvaluator::supports(other));
  other.costs.sharing = InterfaceSharing::kFair;
  EXPECT_FALSE(SearchEvaluator::supports(other));
  other = request;
  other.simulation.blocking = true;
  EXPECT_FALSE(SearchEvaluator::supports(other));
}

}  // namespace
}  // namespace weft::mesh

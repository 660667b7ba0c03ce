#include "mesh/schedule/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/schedule_text.h"
#include "tests/mesh/schedule/schedule_of.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using test::schedule_of;
using testing::HasSubstr;

TEST(Simulate, TransfersOfAnEdgeFollowEachOtherBesideTheComputation) {
  // Actor 0 makes a tensor per unit of time. Each transfer takes 3.
  const ScheduleSimulation simulation =
      simulate(schedule_of("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n"), uniform_costs(2, {}, 3));
  ASSERT_EQ(simulation.transfers.size(), 4u);
  EXPECT_DOUBLE_EQ(simulation.transfers[0].start, 1);
  EXPECT_DOUBLE_EQ(simulation.transfers[0].end, 4);
  EXPECT_DOUBLE_EQ(simulation.transfers[1].start, 4);
  EXPECT_DOUBLE_EQ(simulation.transfers[1].end, 7);
  EXPECT_DOUBLE_EQ(simulation.actors[1].actions[1].start, 7);
  EXPECT_TRUE(simulation.transfers[2].backward);
}

TEST(Simulate, ExposedIsWhatAnActorWaitedForATransferAlone) {
  const ScheduleSimulation simulation =
      simulate(schedule_of("0F0,0B0\n1F0,1B0\n"), uniform_costs(2, {}, 0.5));
  // Actor 1 waits 1 for the forward of actor 0, then 0.5 for the transfer. Actor 0 waits 3 for
  // actor 1 and for two transfers. Only the second begins when no actor computes.
  EXPECT_DOUBLE_EQ(simulation.actors[1].exposed_transfer_time, 0.5);
  EXPECT_DOUBLE_EQ(simulation.actors[0].exposed_transfer_time, 0.5);
  EXPECT_DOUBLE_EQ(simulation.makespan, 1 + 0.5 + 1 + 2 + 0.5 + 2);
}

TEST(Simulate, CriticalPathLeadsFromTheStartToTheEndWithoutAGap) {
  const Schedule schedule = make_schedule("1f1b", 4, 8);
  const ScheduleSimulation simulation = simulate(schedule, uniform_costs(4, {}, 0.75));
  double at = 0;
  for (const ScheduleSimulation::PathStep& step : simulation.critical_path) {
    const std::size_t index = step.index;
    const double start = step.transfer ? simulation.transfers[index].start
                                       : simulation.actors[step.actor].actions[index].start;
    EXPECT_DOUBLE_EQ(start, at);
    at = step.transfer ? simulation.transfers[index].end
                       : simulation.actors[step.actor].actions[index].end;
  }
  EXPECT_DOUBLE_EQ(at, simulation.makespan);
}

TEST(Simulate, ActorsBehindOneInterfaceTakeTurns) {
  // Two stages feed a third. All transfers take 2 and arrive at one interface.
  const Schedule schedule = schedule_of("0F0,0B0\n1F0,1B0\n2F0,2B0\n");
  ScheduleCosts costs = uniform_costs(3, {});
  costs.edges = {{{0, 2, 0}, 2, 2}, {{1, 2, 0}, 2, 2}};
  EXPECT_DOUBLE_EQ(simulate(schedule, costs).actors[2].actions[0].start, 3);
  costs.nic_of_actor = {0, 1, 2};
  EXPECT_DOUBLE_EQ(simulate(schedule, costs).actors[2].actions[0].start, 5);
  // The gradients leave through the same interface.
  EXPECT_DOUBLE_EQ(simulate(schedule, costs).makespan, 5 + 1 + 2 + 2 + 2 + 2);
  costs.nic_of_actor = {0, 0, 1};
  EXPECT_DOUBLE_EQ(simulate(schedule, costs).actors[2].actions[0].start, 5);
  costs.nic_of_actor = {0, 1, 1};
  EXPECT_DOUBLE_EQ(simulate(schedule, costs).actors[2].actions[0].start, 3);
}

TEST(Simulate, FairInterfacesCarryWhatHasAPlaceAtOnce) {
  const Schedule schedule = schedule_of("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n2F0,2F1,2B0,2B1\n");
  ScheduleCosts costs = uniform_costs(3, {.forward = 0.5});
  costs.edges = {{{0, 1, 0}, 2, 0}, {{0, 2, 0}, 2, 0}};
  costs.nic_of_actor = {0, 1, 2};
  costs.sharing = InterfaceSharing::kFair;
  const auto ends = [&] {
    std::vector<double> result;
    for (const SimulatedTransfer& one : simulate(schedule, costs).transfers) {
      if (!one.backward) result.push_back(one.end);
    }
    return result;
  };
  // Tensors of 2 leave for both receivers at 0.5 and at 1. Each takes all slots of the sender.
  EXPECT_THAT(ends(), testing::ElementsAre(2.5, 6.5, 4.5, 8.5));
  EXPECT_DOUBLE_EQ(simulate(schedule, costs).transfers[1].start, 4.5);
  // Two transfers have slots at a time: the first two until 4.5, then the other two.
  for (EdgeCosts& edge : costs.edges) edge.forward_timing.send_share = 0.5;
  EXPECT_THAT(ends(), testing::ElementsAre(4.5, 8.5, 4.5, 8.5));
}

TEST(Simulate, FairInterfacesShareTheirReceiverToo) {
  // Two stages feed a third from time 1 on. The smaller tensor is through when both have sent
  // equally much.
  const Schedule schedule = schedule_of("0F0,0B0\n1F0,1B0\n2F0,2B0\n");
  ScheduleCosts costs = uniform_costs(3, {});
  costs.edges = {{{0, 2, 0}, 3, 0}, {{1, 2, 0}, 1, 0}};
  costs.nic_of_actor = {0, 1, 2};
  costs.sharing = InterfaceSharing::kFair;
  const ScheduleSimulation simulation = simulate(schedule, costs);
  EXPECT_DOUBLE_EQ(simulation.transfers[2].end, 3);
  EXPECT_DOUBLE_EQ(simulation.transfers[0].end, 5);
  EXPECT_DOUBLE_EQ(simulation.makespan, 5 + 1 + 2 + 2);
  // Both tensors leave stage 0 one after the other. Latency delays no other transfer.
  costs.edges[1].edge.from = costs.edges[0].edge.from = 0;
  costs.edges[0].forward_timing.latency = 2;
  EXPECT_DOUBLE_EQ(simulate(schedule, costs).transfers[0].end, 1 + 1 + 2);
  EXPECT_DOUBLE_EQ(simulate(schedule, costs).transfers[2].end, 1 + 2);
}

TEST(Simulate, CreditsHoldTransfersBackButNotTheirSender) {
  // Actor 1 gets its first tensor at 2. Each forward takes it 10.
  const Schedule schedule =
      schedule_of("0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3\n");
  ScheduleCosts costs = uniform_costs(2, {}, 1);
  costs.stages[1].forward = 10;
  EXPECT_DOUBLE_EQ(simulate(schedule, costs).transfers[2].start, 3);
  // With two credits, the third transfer starts when 1F0 has ended at 12. With one, the second
  // starts then, and the third after 1F1 at 23.
  EXPECT_DOUBLE_EQ(simulate(schedule, costs, {2, true}).transfers[2].start, 12);
  const ScheduleSimulation one = simulate(schedule, costs, {1, true});
  EXPECT_DOUBLE_EQ(one.transfers[1].start, 12);
  EXPECT_DOUBLE_EQ(one.transfers[2].start, 23);
  EXPECT_DOUBLE_EQ(one.actors[0].actions[3].start, 3);
}

TEST(Simulate, TooFewCreditsForTheReceiversOrderDeadlock) {
  const Schedule schedule = schedule_of("0F0,0F1,0B0,0B1\n1F1,1F0,1B0,1B1\n");
  EXPECT_NO_THROW(simulate(schedule, uniform_costs(2, {}), {2, true}));
  EXPECT_THAT(
      [&] {
        simulate(schedule, uniform_costs(2, {}), {1, true});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "deadlocks with 1 credits per edge"));
}

TEST(Simulate, ScheduleThatCannotFinishSaysItsCycle) {
  const Schedule schedule = schedule_of("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  EXPECT_THAT([&] { simulate(schedule, uniform_costs(2, {})); },
              test::throws_error(ErrorCode::kInvalidArgument,
                                 "cannot finish: 0B0 of actor 0 waits for 1B0"));
  EXPECT_THAT([&] { simulate(schedule, uniform_costs(3, {})); },
              test::throws_error(ErrorCode::kInvalidArgument,
                                 "has stages 0 to 1: there can be no edge 1 -> 2"));
}

TEST(Simulate, MemoryFollowsActivationsWeightPartsAndTensors) {
  ScheduleCosts costs = uniform_costs(2, {.activations = 10, .for_weight_grad = 4}, 1);
  costs.edges[0].edge.bytes = 3;
  const ScheduleSimulation simulation = simulate(schedule_of("0F0,0I0,0W0\n1F0,1I0,1W0\n"), costs);
  // Actor 0 holds 10 from 0, 13 while the output leaves (1 to 2), then 10. The gradient (3) arrives
  // from 4 on and I ends at 6. Then it holds 4 until W ends.
  std::vector<std::pair<double, double>> levels;
  for (const MemoryLevel& level : simulation.actors[0].memory)
    levels.emplace_back(level.time, level.held);
  EXPECT_THAT(levels,
              testing::ElementsAre(std::pair(0.0, 10.0), std::pair(1.0, 13.0), std::pair(2.0, 10.0),
                                   std::pair(4.0, 13.0), std::pair(6.0, 4.0), std::pair(7.0, 0.0)));
  EXPECT_DOUBLE_EQ(simulation.actors[0].peak, 13);
}

TEST(Simulate, RecomputationHoldsLittleBetween) {
  ScheduleCosts costs = uniform_costs(
      1, {.recompute = 1, .activations = 10, .for_weight_grad = 10, .retained_for_recompute = 2});
  EXPECT_DOUBLE_EQ(simulate(schedule_of("0F0,0F1,0B0,0B1\n"), costs).peak(), 20);
  EXPECT_DOUBLE_EQ(simulate(schedule_of("0F0,0F1,0R0,0B0,0R1,0B1\n"), costs).peak(), 12);
}

TEST(Simulate, DispatchIsPaidPerAction) {
  ScheduleCosts costs = uniform_costs(1, {});
  costs.dispatch_time = 0.25;
  EXPECT_DOUBLE_EQ(simulate(schedule_of("0F0,0B0\n"), costs).makespan, 3.5);
  EXPECT_DOUBLE_EQ(simulate(schedule_of("0F0,0I0,0W0\n"), costs).makespan, 3.75);
}

TEST(Simulate, ACompoundTakesTheSumOfItsMembers) {
  const ScheduleSimulation simulation =
      simulate(schedule_of("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n"), uniform_costs(1, {}));
  EXPECT_DOUBLE_EQ(simulation.makespan, 6);
  EXPECT_DOUBLE_EQ(simulation.actors[0].actions[1].end, 2);
  EXPECT_DOUBLE_EQ(simulation.actors[0].actions[2].start, 2);
  EXPECT_DOUBLE_EQ(simulation.actors[0].actions[2].end, 4);
}

TEST(Simulate, ATensorLeavesWithinItsActionAndIsAwaitedWithinItsUser) {
  ScheduleCosts costs = uniform_costs(2, {.forward = 4, .input_grad = 2, .weight_grad = 6}, 3);
  costs.edges[0].forward_timing = {.produced_at = 0.25, .needed_at = 0.5};
  // The gradient leaves after I and a third of W. Its receiver needs it after half of I and a sixth
  // of W.
  costs.edges[0].backward_timing = {.produced_at = 1,
                                    .produced_at_weights = 1.0 / 3,
                                    .needed_at = 0.5,
                                    .needed_at_weights = 1.0 / 6};
  const ScheduleSimulation simulation = simulate(schedule_of("0F0,0B0\n1F0,1B0\n"), costs);
  // The tensor leaves at 1 and arrives at 4. Actor 1 has run half of its forward by 2, waits, and
  // ends at 6.
  EXPECT_DOUBLE_EQ(simulation.transfers[0].start, 1);
  EXPECT_DOUBLE_EQ(simulation.actors[1].actions[0].start, 0);
  EXPECT_DOUBLE_EQ(simulation.actors[1].actions[0].end, 6);
  EXPECT_DOUBLE_EQ(simulation.actors[1].exposed_transfer_time, 2);
  // The gradient leaves at 6 + 2 + 2 and arrives at 13. Actor 0 has begun its B at 4 and waits from
  // 6 on.
  EXPECT_DOUBLE_EQ(simulation.transfers[1].start, 10);
  EXPECT_DOUBLE_EQ(simulation.actors[0].actions[1].start, 4);
  EXPECT_DOUBLE_EQ(simulation.actors[0].actions[1].end, 13 + 6);
  EXPECT_DOUBLE_EQ(simulation.actors[0].exposed_transfer_time, 3);
  EXPECT_DOUBLE_EQ(simulation.actors[0].work, 12);
  EXPECT_DOUBLE_EQ(simulation.makespan, 19);
  // F of actor 0, transfer, F and B of actor 1, transfer, B of actor 0. The critical path lists
  // each action once.
  std::string path;
  for (const ScheduleSimulation::PathStep& step : simulation.critical_path) {
    path += step.transfer ? " t" : " a" + std::to_string(step.actor);
  }
  EXPECT_EQ(path, " a0 t a1 a1 t a0");
}

TEST(Simulate, ISeparatelyDoesWithoutWhatOnlyWNeeds) {
  ScheduleCosts costs = uniform_costs(2, {}, 2);
  costs.edges[0].backward_timing.for_weights_only = true;
  const ScheduleSimulation simulation = simulate(schedule_of("0F0,0I0,0W0\n1F0,1I0,1W0\n"), costs);
  // 1I0 runs from 4 to 5. The gradient arrives at 7.
  EXPECT_DOUBLE_EQ(simulation.actors[0].actions[1].end, 2);
  EXPECT_DOUBLE_EQ(simulation.actors[0].actions[2].start, 7);
  EXPECT_DOUBLE_EQ(simulate(schedule_of("0F0,0B0\n1F0,1B0\n"), costs).makespan, 8 + 2);
}

TEST(Simulate, AOneWayEdgeDoesNotDelayTheOtherDirection) {
  ScheduleCosts costs = uniform_costs(2, {}, 2);
  costs.edges.push_back({{0, 1, 0}, 5, 100, {}, {.exists = false}});
  const ScheduleSimulation simulation = simulate(schedule_of("0F0,0B0\n1F0,1B0\n"), costs);
  EXPECT_EQ(simulation.transfers.size(), 3u);
  EXPECT_DOUBLE_EQ(simulation.actors[1].actions[0].start, 6);
  EXPECT_DOUBLE_EQ(simulation.makespan, 6 + 3 + 2 + 2);
}

TEST(Simulate, RecomputationThatTheScheduleLacksIsInTheBackward) {
  ScheduleCosts costs = uniform_costs(1, {.recompute = 1,
                                          .activations = 10,
                                          .for_weight_grad = 10,
                                          .retained_for_recompute = 2,
                                          .recomputes = true});
  const ScheduleSimulation simulation = simulate(schedule_of("0F0,0F1,0B0,0B1\n"), costs);
  EXPECT_DOUBLE_EQ(simulation.makespan, 1 + 1 + 3 + 3);
  EXPECT_DOUBLE_EQ(simulation.peak(), 12);
  EXPECT_DOUBLE_EQ(simulate(schedule_of("0F0,0F1,0R0,0B0,0R1,0B1\n"), costs).makespan, 8);
}

TEST(Simulate, BlockingActorsStandStillInEveryTransfer) {
  const ScheduleSimulation simulation = simulate(schedule_of("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n"),
                                                 uniform_costs(2, {}, 3), {.blocking = true});
  // 0F0, transfer (1 to 4), 0F1 and 1F0 (to 5), transfer (to 8), 1F1 (to 9), 1B0 (to 11), transfer
  // (to 14), 1B1 and 0B0 (to 16), transfer (to 19), 0B1.
  EXPECT_DOUBLE_EQ(simulation.transfers[1].start, 5);
  EXPECT_DOUBLE_EQ(simulation.transfers[2].start, 11);
  EXPECT_DOUBLE_EQ(simulation.makespan, 21);
  EXPECT_DOUBLE_EQ(simulation.actors[0].exposed_transfer_time, 12);
  EXPECT_DOUBLE_EQ(
      simulate(schedule_of("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n"), uniform_costs(2, {}, 3)).makespan,
      18);
}

TEST(Simulate, AStepEndsWithTheReductionTheExchangeAndTheOptimizer) {
  ScheduleCosts costs = uniform_costs(2, {.reduce_grad = 4, .optimizer = 2});
  costs.exchange = 1;
  const ScheduleSimulation simulation = simulate(schedule_of("0F0,0B0\n1F0,1B0\n"), costs);
  EXPECT_DOUBLE_EQ(simulation.makespan, 6);
  EXPECT_DOUBLE_EQ(simulation.step_time, 6 + 4 + 1 + 2);
}

TEST(Simulate, AReductionRunsBesideTheComputationUnlessTransfersBlock) {
  ScheduleCosts costs = uniform_costs(2, {.reduce_grad = 4, .optimizer = 2});
  costs.exchange = 1;
  // Both stages are on one actor. 1B0 ends at 4, 0B0 at 6.
  const Schedule late = schedule_of("0F0,1F0,1B0,0B0\n"),
                 early = schedule_of("0F0,1F0,1B0,1REDUCE_GRAD,0B0\n");
  EXPECT_DOUBLE_EQ(simulate(late, costs).step_time, 6 + 4 + 4 + 1 + 4);
  EXPECT_DOUBLE_EQ(simulate(early, costs).makespan, 6);
  EXPECT_DOUBLE_EQ(simulate(early, costs).step_time, 4 + 4 + 4 + 1 + 4);
  EXPECT_DOUBLE_EQ(simulate(early, costs, {.blocking = true}).step_time, 6 + 4 + 4 + 1 + 4);
  // The reductions run one after the other, then the updates.
  const Schedule all = schedule_of("0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD,0OPT,1OPT\n");
  EXPECT_DOUBLE_EQ(simulate(all, costs).step_time, 4 + 4 + 4 + 4 + 1);
  costs.stages[1].reduce_grad = 1;
  EXPECT_DOUBLE_EQ(simulate(early, costs).step_time, 6 + 4 + 1 + 4);
}

TEST(Simulate, LargeSchedulesAreCountedToTheEnd) {
  const Schedule schedule = make_schedule("zb-h1", 64, 512);
  const ScheduleSimulation simulation = simulate(schedule, uniform_costs(64, {}, 0.25));
  EXPECT_EQ(simulation.transfers.size(), 2u * 63 * 512);
  EXPECT_GE(simulation.makespan, 3 * 512);
}

TEST(Costs, CuttingKeepsTheWork) {
  ScheduleCosts costs = uniform_costs(2, {.forward = 2, .activations = 8}, 0.5);
  costs.edges.push_back({{0, 1, 7}, 0.25, 0.25});
  const ScheduleCosts cut = split_stages(costs, 2);
  EXPECT_EQ(cut.stages.size(), 4u);
  EXPECT_DOUBLE_EQ(cut.stages[3].forward, 1);
  EXPECT_DOUBLE_EQ(cut.stages[0].activations, 4);
  EXPECT_EQ(cut.edges.size(), 3u);
  EXPECT_DOUBLE_EQ(cut.edges[2].forward, 0.5);
  EXPECT_THAT([&] { split_stages(costs, 0); },
              test::throws_error(ErrorCode::kInvalidArgument, "cannot be split into 0 parts"));
}

/// Makes a schedule of two actors and one microbatch, with input and output layers split.
Schedule split_vocabulary(int barriers) {
  return schedule_of("# vocabulary barriers: " + std::to_string(barriers) +
                     (barriers == 1 ? "\n0IF0,0F0,0S0,0B0,0T0,0IB0\n1IF0,1F0,1S0,1B0,1T0,1IB0\n"
                                    : "\n0IF0,0F0,0S0,0T0,0B0,0IB0\n1IF0,1F0,1S0,1T0,1B0,1IB0\n"));
}

ScheduleCosts split_costs() {
  return uniform_costs(2, {.vocabulary_scores = 0.5,
                           .vocabulary_grads = 0.25,
                           .input_forward = 0.125,
                           .input_backward = 0.125,
                           .activations = 0,
                           .for_weight_grad = 0,
                           .score_memory = 8,
                           .partial_held = 4,
                           .embedded_held = 1});
}

TEST(Simulate, VocabularyPassesTakeTheirTimes) {
  EXPECT_DOUBLE_EQ(simulate(split_vocabulary(1), split_costs()).makespan,
                   0.125 + 2 + 0.5 + 2 * 2 + 0.25 + 0.125);
  EXPECT_DOUBLE_EQ(simulate(split_vocabulary(2), split_costs()).makespan,
                   0.125 + 2 + 0.5 + 0.25 + 2 * 2 + 0.125);
}

TEST(Simulate, VocabularyPassesWaitForTheirTransfers) {
  ScheduleCosts costs = split_costs();
  costs.vocabulary_tensor = 16;
  costs.vocabulary_exchange = 32;
  // IF to the first stage, X to S of actor 0, the exchange and the gradient, and the gradient to
  // IB.
  const ScheduleSimulation one = simulate(split_vocabulary(1), costs);
  EXPECT_DOUBLE_EQ(one.makespan, 7 + 16 + 16 + (32 + 16) + 16 - 0.25);
  // Actor 1 makes X itself. It waits before its B and its IB.
  EXPECT_DOUBLE_EQ(one.actors[1].exposed_transfer_time, (32 + 16) + 16);
  // With two barriers, the exchange precedes T and the gradient follows T.
  EXPECT_DOUBLE_EQ(simulate(split_vocabulary(2), costs).makespan, 7 + 16 + 16 + 32 + 16 + 16);
}

TEST(Simulate, ScoresAreHeldUntilTheirGradientsAndPartsUntilTheExchange) {
  const ScheduleSimulation simulation = simulate(split_vocabulary(1), split_costs());
  const auto held = [&](std::size_t actor, double time) {
    double result = 0;
    for (const MemoryLevel& level : simulation.actors[actor].memory) {
      if (level.time <= time) result = level.held;
    }
    return result;
  };
  // Both actors embed. Then the first stage's actor holds the sum until its forward is over.
  EXPECT_DOUBLE_EQ(held(1, 0.1), 1);
  EXPECT_DOUBLE_EQ(held(0, 0.5), 1);
  EXPECT_DOUBLE_EQ(held(1, 0.5), 0);
  EXPECT_DOUBLE_EQ(held(0, 2.2), 8 + 4);  // S
  EXPECT_DOUBLE_EQ(held(1, 3), 8);        // B of the last stage
  // T is over on the last actor, which waits for the first stage's gradient.
  EXPECT_DOUBLE_EQ(held(1, 5), 0);
  EXPECT_DOUBLE_EQ(held(0, 6.7), 8 + 1);  // T of the first actor; IB comes next
  EXPECT_EQ(simulation.actors[0].memory.back().held, 0);
}

}  // namespace
}  // namespace weft::mesh

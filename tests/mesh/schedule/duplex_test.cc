#include "mesh/schedule/duplex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "mesh/schedule/action_order.h"
#include "mesh/schedule/channels.h"
#include "mesh/schedule/check.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/simulate.h"
#include "tests/mesh/schedule/schedule_of.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using test::schedule_of;
using testing::HasSubstr;

TEST(Duplex, HalvesDoubleEveryActionOfAnySchedule) {
  EXPECT_EQ(to_string(with_halves(make_schedule("1f1b", 2, 2))),
            "actor 0: (0F0;0F1) (0F2;0F3) (0B0;0B1) (0B2;0B3)\n"
            "actor 1: (1F0;1F1) (1B0;1B1) (1F2;1F3) (1B2;1B3)\n");
  for (const NamedSchedule& named : named_schedules()) {
    const Schedule schedule = make_schedule({std::string(named.name), 3, 5, 0, 0});
    const Schedule halves = with_halves(schedule);
    validate(halves, chain_edges(halves.stages));
    EXPECT_EQ(halves.microbatches, 10);
    EXPECT_EQ(without_halves(halves).actors, without_compounds(schedule).actors) << named.name;
    ScheduleCosts costs = uniform_costs(halves.stages, {});
    EXPECT_TRUE(check_schedule(halves, costs).holds()) << named.name;
  }
}

TEST(Duplex, VocabularyPassesOfHalvesFollowEachOther) {
  ScheduleRequest request{"1f1b", 2, 3, 0, 0};
  request.vocabulary = VocabularyMode::kVocab1;
  const Schedule halves = with_halves(make_schedule(request));
  validate(halves, chain_edges(2));
  for (const std::vector<Action>& actions : halves.actors)
    for (const Action& action : actions)
      EXPECT_TRUE(!action.joins_previous || !is_vocabulary_pass(action.kind)) << to_string(action);
}

/// Returns the makespan of crossed 1F1B with so many more warm-up forwards than 1F1B, if a pair
/// takes `share` of its members' sum. F takes 1, B takes 2.
double crossed(int stages, int microbatches, int (*more)(int below), double share) {
  Schedule schedule = make_crossed_1f1b(stages, microbatches);
  for (int stage = 0; stage < stages; ++stage) {
    const int below = stages - 1 - stage;
    std::vector<Action>& actions = schedule.actors[stage];
    actions.clear();
    const int warm_up = below + more(below);
    for (int i = 0; i < warm_up; ++i) actions.push_back({stage, ActionKind::kForward, i});
    for (int i = 0; i < microbatches; ++i) {
      const bool pairs = warm_up + i < microbatches;
      if (pairs) actions.push_back({stage, ActionKind::kForward, warm_up + i});
      actions.push_back({stage, ActionKind::kBackward, i, pairs});
    }
  }
  ScheduleCosts costs = uniform_costs(stages, {});
  for (int stage = 0; stage < stages; ++stage)
    costs.compounds[{{stage, ActionKind::kForward, 0}, {stage, ActionKind::kBackward, 1}}] = {
        3 * share};
  return simulate(schedule, costs).makespan;
}

TEST(Duplex, CrossedPairsWarmUpTwiceAsLong) {
  const auto one = [](int) { return 1; };
  const auto twice = [](int below) { return below + 1; };
  EXPECT_DOUBLE_EQ(crossed(4, 16, one, 1), 99);
  EXPECT_DOUBLE_EQ(crossed(4, 16, twice, 1), 57);
  EXPECT_DOUBLE_EQ(crossed(4, 16, twice, 0.7), 43.5);
  EXPECT_DOUBLE_EQ(crossed(8, 32, twice, 1), 117);
  for (const int stages : {1, 2, 4}) {
    const Schedule schedule = make_crossed_1f1b(stages, 12);
    validate(schedule, chain_edges(stages));
    EXPECT_TRUE(check_schedule(schedule, uniform_costs(stages, {})).holds());
    for (int stage = 0; stage < stages; ++stage)
      EXPECT_EQ(std::ranges::find(schedule.actors[stage], ActionKind::kBackward, &Action::kind) -
                    schedule.actors[stage].begin(),
                crossed_warm_up(stages - stage) + 1);
  }
}

TEST(Duplex, ACompoundBeginsWithAllTensorsAndEndsAtOnce) {
  // 1F1 needs 0F1, so the pair of actor 1 begins after it, though 1B0 could begin before.
  const Schedule schedule = schedule_of("0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n");
  ScheduleCosts costs = uniform_costs(2, {.forward = 4, .input_grad = 1, .weight_grad = 1});
  const ScheduleSimulation apart = simulate(without_compounds(schedule), costs);
  const ScheduleSimulation one_by_one = simulate(schedule, costs);
  EXPECT_DOUBLE_EQ(one_by_one.actors[1].actions[1].start, 8);
  EXPECT_DOUBLE_EQ(one_by_one.makespan, apart.makespan);
  // The gradient leaves halfway.
  costs.compounds[{{1, ActionKind::kForward, 0}, {1, ActionKind::kBackward, 1}}] = {
      4, {{{0, 1}, 0.5}}};
  const ScheduleSimulation interleaved = simulate(schedule, costs);
  EXPECT_DOUBLE_EQ(interleaved.actors[1].actions[2].end, 12);
  EXPECT_DOUBLE_EQ(interleaved.actors[0].actions[2].start, 10);
  const ActionHistory history(schedule, chain_edges(2), order_actions(schedule, chain_edges(2)));
  // 1F1 has certainly ended when 0B0 begins: its compound has.
  EXPECT_EQ(history.first_action_after({1, 1}, 0), 2u);
  EXPECT_EQ(history.first_action_after({0, 1}, 1), 1u);
}

TEST(Duplex, CompoundsThatWaitForEachOtherAreRefusedWithTheCycle) {
  const Schedule schedule =
      schedule_of("0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\n1F0,(1F1;1F2)OVERLAP_F_B,1B0,1B1,1B2\n");
  const std::string text =
      test::error_message(ErrorCode::kInvalidArgument, [&] { validate(schedule, chain_edges(2)); });
  EXPECT_THAT(text,
              HasSubstr("0B0 of actor 0 waits for 1B0, 1B0 of actor 1 comes after 1F2, 1F2 of "
                        "actor 1 waits for 0F2, 0F2 of actor 0 is in a compound with 0B0"));
}

TEST(Duplex, OnlyActionsOfAMicrobatchAreMembers) {
  EXPECT_THAT(
      test::error_message(
          ErrorCode::kInvalidArgument,
          [] { validate(schedule_of("0F0,(0B0;0REDUCE_GRAD)OVERLAP_F_B\n"), chain_edges(1)); }),
      HasSubstr("0REDUCE_GRAD cannot be part of a compound"));
}

TEST(Duplex, WhatIsLeftOfACompoundStaysOne) {
  Schedule schedule = schedule_of("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n");
  erase_actions(schedule.actors[0],
                [](const Action& action) { return action.kind == ActionKind::kForward; });
  EXPECT_EQ(to_string(schedule), "actor 0: 0B0 0B1\n");
}

TEST(Duplex, HalvesFinishWithOneLanePerEdge) {
  for (const char* name : {"1f1b", "zb-h1", "v-half", "interleaved-1f1b"}) {
    const Schedule halves = with_halves(make_schedule({name, 4, 6, 0, 0}));
    const auto edges = chain_edges(halves.stages);
    EXPECT_EQ(
        find_deadlock(lower(halves, edges, TransferOrder::kBeforeUse), ChannelModel::kPerEdge), "")
        << name;
  }
}

}  // namespace
}  // namespace weft::mesh

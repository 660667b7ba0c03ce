#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "mesh/schedule/schedule_text.h"
#include "tests/mesh/schedule/schedule_of.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using test::schedule_of;
using testing::HasSubstr;

/// 1F1B and GPipe with two stages and two microbatches.
Schedule one_f_one_b() { return schedule_of("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"); }
Schedule gpipe() { return schedule_of("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n"); }

std::string validation_error_of(const Schedule& schedule, const std::vector<StageEdge>& edges) {
  return test::error_message(ErrorCode::kInvalidArgument, [&] { validate(schedule, edges); });
}

TEST(Validate, SkipEdgesAreAllowed) {
  const Schedule schedule = schedule_of("0F0,0B0\n1F0,1B0\n2F0,2B0\n");
  EXPECT_EQ(validation_error_of(schedule, {{0, 1}, {1, 2}, {0, 2}}), "");
  EXPECT_THAT(validation_error_of(schedule, {{0, 3}}), HasSubstr("there can be no edge 0 -> 3"));
}

TEST(Validate, MissingActionIsNamed) {
  Schedule schedule = one_f_one_b();
  schedule.actors[1].pop_back();
  EXPECT_THAT(validation_error_of(schedule, chain_edges(2)),
              HasSubstr("stage 1, microbatch 1: needs either B"));
  schedule.actors[0].erase(schedule.actors[0].begin());
  EXPECT_THAT(validation_error_of(schedule, chain_edges(2)), HasSubstr("never runs 0F0"));
}

TEST(Validate, DuplicateActionIsNamed) {
  Schedule schedule = one_f_one_b();
  schedule.actors[0].push_back({0, ActionKind::kForward, 1});
  EXPECT_THAT(validation_error_of(schedule, chain_edges(2)),
              HasSubstr("actor 0: 0F1 occurs twice"));
}

TEST(Validate, ActionOnAForeignActorIsNamed) {
  Schedule schedule = one_f_one_b();
  schedule.actors[0][0].stage = 1;
  EXPECT_THAT(validation_error_of(schedule, chain_edges(2)), HasSubstr("1F0 belongs to actor 1"));
}

TEST(Validate, MicrobatchThatDoesNotExistIsNamed) {
  Schedule schedule = one_f_one_b();
  schedule.actors[0][0].microbatch = 2;
  EXPECT_THAT(validation_error_of(schedule, chain_edges(2)),
              HasSubstr("0F2 names a stage or microbatch that does not exist"));
}

TEST(Validate, BackwardBeforeForwardIsADeadlockThatNamesBothActorsAndTheCycle) {
  Schedule schedule = gpipe();
  std::swap(schedule.actors[0][0], schedule.actors[0][2]);
  const std::string text = validation_error_of(schedule, chain_edges(2));
  EXPECT_THAT(text, HasSubstr("actor 0 is at 0B0, which waits for 0F0 of actor 0"));
  EXPECT_THAT(text, HasSubstr("actor 1 is at 1F0, which waits for 0F0 of actor 0"));
  EXPECT_THAT(text,
              HasSubstr("the cycle: 0B0 of actor 0 waits for 0F0, 0F0 of actor 0 comes after 0B0"));
}

TEST(Validate, ACycleThroughTwoActorsNamesNoActorInBetween) {
  // Actor 0 waits for the gradient of microbatch 0 before it sends microbatch 1. Actor 1 waits for
  // microbatch 1 first.
  const Schedule schedule = schedule_of("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  EXPECT_THAT(validation_error_of(schedule, chain_edges(2)),
              HasSubstr("the cycle: 0B0 of actor 0 waits for 1B0, 1B0 of actor 1 comes after 1F1, "
                        "1F1 of actor 1 waits for 0F1, 0F1 of actor 0 comes after 0B0"));
}

TEST(Validate, WeightGradientsOutOfOrderAreRefused) {
  EXPECT_THAT(validation_error_of(schedule_of("0F0,0F1,0B1,0B0\n"), {}),
              HasSubstr("microbatch order"));
}

TEST(Validate, SplitBackwardIsAsGoodAsAWholeOne) {
  EXPECT_EQ(validation_error_of(schedule_of("0F0,0I0,0W0\n"), {}), "");
  EXPECT_THAT(validation_error_of(schedule_of("0F0,0W0,0I0\n"), {}), HasSubstr("waits for 0I0"));
  EXPECT_THAT(validation_error_of(schedule_of("0F0,0I0\n"), {}),
              HasSubstr("has B 0 times, I 1 times, W 0 times"));
}

TEST(Validate, RecomputationStandsBetweenForwardAndBackward) {
  EXPECT_EQ(validation_error_of(schedule_of("0F0,0R0,0B0\n"), {}), "");
  EXPECT_THAT(validation_error_of(schedule_of("0F0,0B0,0R0\n"), {}),
              HasSubstr("0B0, which waits for 0R0"));
}

TEST(Validate, ReductionWaitsForTheLastWeightGradientAndTheOptimizerForTheReduction) {
  EXPECT_EQ(validation_error_of(schedule_of("0F0,0B0,0F1,0B1,0REDUCE_GRAD,0OPT\n"), {}), "");
  EXPECT_THAT(validation_error_of(schedule_of("0F0,0B0,0F1,0REDUCE_GRAD,0B1,0OPT\n"), {}),
              HasSubstr("0REDUCE_GRAD, which waits for 0B1"));
  EXPECT_THAT(validation_error_of(schedule_of("0F0,0B0,0OPT,0REDUCE_GRAD\n"), {}),
              HasSubstr("0OPT, which waits for 0REDUCE_GRAD"));
}

TEST(Validate, VocabularyPassesHoldUpTheLastBackwardByTheirBarriers) {
  // Two shards of the vocabulary, on the actors of stages 0 and 1.
  const std::string one = "# vocabulary barriers: 1\n0F0,0S0,0B0,0T0\n1F0,1S0,1B0,1T0\n";
  EXPECT_EQ(validation_error_of(schedule_of(one), chain_edges(2)), "");
  const std::string two = "# vocabulary barriers: 2\n0F0,0S0,0B0,0T0\n1F0,1S0,1B0,1T0\n";
  EXPECT_THAT(validation_error_of(schedule_of(two), chain_edges(2)),
              HasSubstr("actor 1 is at 1B0, which waits for 0T0 of actor 0"));
}

TEST(Validate, ForwardsAloneAreWholeWhereNothingIsTrained) {
  const Schedule schedule = schedule_of("0F0,0F1\n1F0,1F1\n");
  EXPECT_NO_THROW(validate(schedule, chain_edges(2), false));
  EXPECT_THAT(
      [&] { validate(gpipe(), chain_edges(2), false); },
      test::throws_error(ErrorCode::kInvalidArgument, "needs no backward, but has B 1 times"));
}

}  // namespace
}  // namespace weft::mesh

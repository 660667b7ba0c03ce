#include "mesh/schedule/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "mesh/schedule/check.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/schedule_text.h"
#include "tests/mesh/schedule/schedule_of.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using test::schedule_of;
using testing::HasSubstr;

/// Schedule of two actors and two microbatches, with both layers split. Each test breaks one rule
/// in this text.
constexpr const char* kWhole =
    "# vocabulary barriers: 1\n"
    "0IF0,0IF1,0F0,0F1,0S0,0B0,0T0,0S1,0IB0,0B1,0T1,0IB1\n"
    "1IF0,1IF1,1F0,1S0,1F1,1B0,1T0,1S1,1B1,1IB0,1T1,1IB1\n";

/// Returns the schedule's text with `from` replaced once.
std::string with(const std::string& from, const std::string& to) {
  std::string text = kWhole;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string vocabulary_error_of(const std::string& text, bool training = true) {
  const Schedule schedule = schedule_of(text);
  return test::error_message(ErrorCode::kInvalidArgument,
                             [&] { validate(schedule, chain_edges(schedule.stages), training); });
}

std::string mismatch_of(const Schedule& schedule, VocabularyMode mode, bool training = true) {
  return test::error_message(ErrorCode::kInvalidArgument,
                             [&] { require_vocabulary(schedule, mode, training); });
}

TEST(VocabularyPasses, AllOfThemAreValid) {
  EXPECT_EQ(vocabulary_error_of(kWhole), "");
  EXPECT_EQ(write_schedule(schedule_of(kWhole)),
            "# name: test\n# actors of stages: 0 1\n" + std::string(kWhole));
}

TEST(VocabularyPasses, AnOutputLayerAloneIsValid) {
  EXPECT_EQ(vocabulary_error_of("# vocabulary barriers: 2\n0F0,0S0,0T0,0B0\n1F0,1S0,1T0,1B0\n"),
            "");
}

TEST(VocabularyPasses, AnActorThatLacksOneIsNamed) {
  EXPECT_THAT(vocabulary_error_of(with("1S1,", "")),
              HasSubstr("actor 1: there is no S of microbatch 1; every actor has one"));
  EXPECT_THAT(vocabulary_error_of(with("0T0,", "")),
              HasSubstr("actor 0: there is no T of microbatch 0"));
  EXPECT_THAT(vocabulary_error_of(with("1IF1,", "")),
              HasSubstr("actor 1: there is no IF of microbatch 1"));
  EXPECT_THAT(vocabulary_error_of(with(",1IB1", "")),
              HasSubstr("actor 1: there is no IB of microbatch 1"));
}

TEST(VocabularyPasses, ScoresNeedGradientsAndInputPassesScores) {
  EXPECT_THAT(vocabulary_error_of("# vocabulary barriers: 1\n0F0,0S0,0B0\n1F0,1S0,1B0\n"),
              HasSubstr("actor 0: there is no T of microbatch 0; every S has its T"));
  EXPECT_THAT(vocabulary_error_of("# vocabulary barriers: 1\n0F0,0T0,0B0\n1F0,1T0,1B0\n"),
              HasSubstr("actor 0: there is no S of microbatch 0; T, IF and IB go with S"));
  EXPECT_THAT(vocabulary_error_of("0IF0,0F0,0B0,0IB0\n1IF0,1F0,1B0,1IB0\n"),
              HasSubstr("actor 0: there is no S of microbatch 0; T, IF and IB go with S"));
  EXPECT_THAT(
      vocabulary_error_of("# vocabulary barriers: 1\n0IF0,0F0,0S0,0T0,0B0\n1IF0,1F0,1S0,1T0,1B0\n"),
      HasSubstr("actor 0: there is no IB of microbatch 0; every IF has its IB"));
  EXPECT_THAT(
      vocabulary_error_of("# vocabulary barriers: 1\n0F0,0S0,0T0,0B0,0IB0\n1F0,1S0,1T0,1B0,1IB0\n"),
      HasSubstr("actor 0: there is no IF of microbatch 0; every IB has its IF"));
}

TEST(VocabularyPasses, StandOnAnActorOnce) {
  EXPECT_THAT(vocabulary_error_of(with("0T0,", "0T0,0T0,")),
              HasSubstr("actor 0: 0T0 occurs twice"));
  EXPECT_THAT(vocabulary_error_of("# vocabulary barriers: 1\n# actors of stages: 0 1 1 0\n"
                                  "0F0,3F0,0S0,3T0,3B0,0B0\n1F0,2F0,1S0,1T0,2B0,1B0\n"),
              HasSubstr("actor 0: 0S0 and 3T0 name different stages"));
}

TEST(VocabularyPasses, AnyStageOfAnActorMayNameThem) {
  EXPECT_EQ(vocabulary_error_of("# vocabulary barriers: 1\n# actors of stages: 0 1 1 0\n"
                                "0F0,3F0,3S0,3B0,3T0,0B0\n1F0,2F0,1S0,1T0,2B0,1B0\n"),
            "");
}

TEST(VocabularyPasses, OneActorHasNoneToShareWith) {
  EXPECT_THAT(vocabulary_error_of("# vocabulary barriers: 1\n0F0,0S0,0T0,0B0\n"),
              HasSubstr("at least two pipeline stages"));
  EXPECT_THAT(vocabulary_error_of("# vocabulary barriers: 1\n# actors of stages: 0 0\n"
                                  "0F0,1F0,0S0,1B0,0B0,0T0\n"),
              HasSubstr("on one actor"));
}

TEST(VocabularyPasses, BarriersAndPassesGoTogether) {
  EXPECT_THAT(vocabulary_error_of(with("# vocabulary barriers: 1\n", "")),
              HasSubstr("has vocabulary passes S and T, but no barriers"));
  EXPECT_THAT(vocabulary_error_of("# vocabulary barriers: 2\n0F0,0B0\n1F0,1B0\n"),
              HasSubstr("has 2 vocabulary barriers, but no vocabulary passes"));
}

TEST(VocabularyPasses, GradientsStandBehindTheirExchange) {
  EXPECT_THAT(vocabulary_error_of(with("0S0,0B0,0T0", "0T0,0S0,0B0")),
              HasSubstr("actor 0: 0T0 comes before 0S0, but needs the exchange"));
  // T before another actor's S, which waits for this actor.
  EXPECT_THAT(vocabulary_error_of(with("0F0,0F1,0S0,0B0,0T0,", "0F0,0S0,0T0,0F1,0B0,")), "");
  EXPECT_THAT(vocabulary_error_of(with("1F0,1S0,1F1", "1F0,1F1,1S0")), "");
  const std::string both =
      "# vocabulary barriers: 1\n"
      "0F0,0S0,0T0,0F1,0S1,0T1,0B0,0B1\n1F0,1F1,1S0,1T0,1S1,1T1,1B0,1B1\n";
  EXPECT_THAT(vocabulary_error_of(both),
              HasSubstr("actor 0 is at 0T0, which waits for 1S0 of actor 1"));
}

TEST(VocabularyPasses, OneBarrierWaitsForScoresAndTwoForGradients) {
  EXPECT_THAT(vocabulary_error_of(with("barriers: 1", "barriers: 2")),
              HasSubstr("1B0, which waits for 0T0 of actor 0"));
  EXPECT_THAT(vocabulary_error_of(with("1S0,1F1,1B0,1T0", "1F1,1B0,1S0,1T0")),
              HasSubstr("1B0, which waits for 1S0 of actor 1"));
}

TEST(VocabularyPasses, InputPassesStandAroundTheFirstStage) {
  EXPECT_THAT(vocabulary_error_of(with("0IF0,0IF1,0F0,", "0F0,0IF0,0IF1,")),
              HasSubstr("0F0, which waits for 0IF0"));
  EXPECT_THAT(vocabulary_error_of(with("1B1,1IB0,", "1IB0,1B1,")), "");
  EXPECT_THAT(vocabulary_error_of(with("0B1,0T1,0IB1", "0IB1,0B1,0T1")),
              HasSubstr("0IB1, which waits for 0B1 of actor 0"));
}

TEST(VocabularyPasses, AddUpInMicrobatchOrder) {
  EXPECT_THAT(vocabulary_error_of(with("0B0,0T0,0S1,0IB0,0B1,0T1", "0B0,0S1,0IB0,0B1,0T1,0T0")),
              HasSubstr("0T0 comes after the weight gradient of microbatch 1"));
  EXPECT_THAT(vocabulary_error_of(with("1IB0,1T1,1IB1", "1IB1,1T1,1IB0")),
              HasSubstr("1IB0 comes after the weight gradient of microbatch 1"));
}

TEST(VocabularyPasses, ReductionOfTheStageThatNamesThemWaitsForTheLastOnes) {
  EXPECT_EQ(vocabulary_error_of(with("0T1,0IB1", "0T1,0IB1,0REDUCE_GRAD")), "");
  EXPECT_THAT(vocabulary_error_of(with("0T1,0IB1", "0T1,0REDUCE_GRAD,0IB1")),
              HasSubstr("0REDUCE_GRAD, which waits for 0IB1"));
  EXPECT_THAT(vocabulary_error_of(with("0T1,0IB1", "0IB1,0REDUCE_GRAD,0T1")),
              HasSubstr("0REDUCE_GRAD, which waits for 0T1"));
}

TEST(VocabularyPasses, ForwardsAloneHaveNoGradients) {
  EXPECT_EQ(vocabulary_error_of("0IF0,0F0,0S0\n1IF0,1F0,1S0\n", false), "");
  EXPECT_THAT(vocabulary_error_of("0IF0,0F0,0S0,0T0\n1IF0,1F0,1S0,1T0\n", false),
              HasSubstr("has T or IB, but only forwards are wanted"));
}

TEST(VocabularyPasses, AreAmongTheTenProperties) {
  const auto report = [](const std::string& text) {
    const Schedule schedule = schedule_of(text);
    return check_schedule(schedule, uniform_costs(2, {.vocabulary_scores = 0.1,
                                                      .vocabulary_grads = 0.1,
                                                      .score_memory = 1,
                                                      .partial_held = 1,
                                                      .embedded_held = 1}));
  };
  EXPECT_TRUE(report(kWhole).holds());
  EXPECT_THAT(report(with("1S1,", "")).of(ScheduleProperty::kComplete).detail,
              HasSubstr("there is no S of microbatch 1"));
  EXPECT_THAT(report(with("0B1,0T1,0IB1", "0IB1,0B1,0T1")).of(ScheduleProperty::kLocalOrder).detail,
              HasSubstr("0IB1 comes before 0B1, on which it depends"));
  EXPECT_THAT(report(with("1IB0,1T1,1IB1", "1IB1,1T1,1IB0")).of(ScheduleProperty::kSumOrder).detail,
              HasSubstr("1IB0 comes after"));
}

TEST(VocabularyPasses, AreExchangedInOneOrder) {
  const Schedule schedule = schedule_of(
      "# vocabulary barriers: 1\n"
      "0F0,0F1,0S0,0S1,0T0,0T1,0B0,0B1\n1F0,1F1,1S1,1S0,1T0,1T1,1B0,1B1\n");
  EXPECT_THAT(find_edge_order_violation(schedule, chain_edges(2)),
              HasSubstr("S: actor 0 runs microbatch 0 where actor 1 runs 1"));
  EXPECT_EQ(find_edge_order_violation(schedule_of(kWhole), chain_edges(2)), "");
}

TEST(VocabularyModes, HaveBarriers) {
  EXPECT_EQ(vocabulary_modes().size(), 4u);
  EXPECT_EQ(vocabulary_barriers(VocabularyMode::kLast), 0);
  EXPECT_EQ(vocabulary_barriers(VocabularyMode::kInterlaced), 2);
  EXPECT_EQ(vocabulary_barriers(VocabularyMode::kVocab1), 2);
  EXPECT_EQ(vocabulary_barriers(VocabularyMode::kVocab2), 1);
}

TEST(VocabularyModes, AreCheckedAgainstTheScheduleAndItsBarriers) {
  const auto made = [](VocabularyMode mode) { return make_schedule({"1f1b", 4, 8, 0, 0, mode}); };
  using enum VocabularyMode;
  for (const VocabularyMode mode : {kLast, kVocab1, kVocab2, kInterlaced})
    EXPECT_EQ(mismatch_of(made(mode), mode), "");
  EXPECT_THAT(mismatch_of(made(kLast), kVocab1), HasSubstr("has no passes S, but the vocabulary"));
  EXPECT_THAT(mismatch_of(made(kVocab2), kLast), HasSubstr("has the passes S"));
  EXPECT_THAT(mismatch_of(made(kVocab2), kVocab1),
              HasSubstr("has 1 vocabulary barriers, but 'vocab-1' has 2; ask for vocab-2"));
  EXPECT_THAT(mismatch_of(made(kVocab1), kVocab2), HasSubstr("ask for vocab-1"));
  EXPECT_THAT(mismatch_of(made(kVocab1), kInterlaced), HasSubstr("is not interlaced"));
  EXPECT_THAT(
      mismatch_of(schedule_of("# vocabulary barriers: 1\n0F0,0S0,0B0,0T0\n1F0,1S0,1B0,1T0\n"),
                  kVocab2),
      HasSubstr("has no passes IF"));
  const Schedule forwards = with_vocabulary(make_forward_schedule(2, 3), kVocab1);
  EXPECT_EQ(mismatch_of(forwards, kVocab1, false), "");
}

}  // namespace
}  // namespace weft::mesh

#include "mesh/plan/plan_decisions.h"

#include <gtest/gtest.h>

namespace weft::mesh {
namespace {

TEST(PlanDecisions, ALaterDecisionReplacesAnEarlierOneOnTheSameQuestion) {
  PlanDecisions decisions;
  decisions.record({PlanQuestion::kSnapshots, "no", "memory is short", true});
  decisions.record({PlanQuestion::kGather, "once per step", "memory allows it"});
  decisions.record({PlanQuestion::kSnapshots, "yes", "memory allows them"});
  ASSERT_EQ(decisions.all().size(), 2u);
  EXPECT_EQ(decisions.reason_declined(PlanQuestion::kSnapshots), "");
  EXPECT_EQ(describe(decisions),
            "\ndecisions that the run file leaves to Weft\n"
            "  gather: once per step: memory allows it\n"
            "  copies for recovery: yes: memory allows them\n");
  EXPECT_EQ(describe(PlanDecisions()), "");
}

TEST(PlanDecisions, APlanMadeAgainKeepsTheReasonsOfDecisionsThatItRepeats) {
  PlanDecisions before, again;
  before.record({PlanQuestion::kCheckpointCopies, "no", "memory is short", true});
  before.record({PlanQuestion::kSchedule, "begin with zb-h1", "it is measured"});
  again.record({PlanQuestion::kSchedule, "a schedule that the search found", "it is faster"});
  again.inherit(before);
  ASSERT_EQ(again.all().size(), 2u);
  EXPECT_EQ(again.all().front().choice, "a schedule that the search found");
  EXPECT_EQ(again.reason_declined(PlanQuestion::kCheckpointCopies), "memory is short");
  EXPECT_EQ(again.reason_declined(PlanQuestion::kSchedule), "") << "it was not declined";
}

}  // namespace
}  // namespace weft::mesh

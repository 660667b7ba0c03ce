#include "mesh/plan/plan_decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "mesh/plan/plan_memory.h"
#include "mesh/plan/plan_text.h"
#include "tests/training/layouts.h"

namespace weft::test {
namespace {

using mesh::PlanQuestion;
using ::testing::HasSubstr;

std::string choice_of(const mesh::TrainingPlan& plan, PlanQuestion question) {
  for (const mesh::PlanDecision& decision : plan.decisions.all())
    if (decision.question == question) return decision.choice;
  return "";
}

std::uint64_t largest_memory(const mesh::TrainingPlan& plan) {
  std::uint64_t most = 0;
  for (const mesh::Program& program : plan.train.programs)
    most = std::max(most, mesh::device_memory(plan, program.device));
  return most;
}

mesh::TrainingPlan plan_with(const mesh::ParallelConfig& layout, const Case& c,
                             const mesh::PlanConditions& conditions = {}) {
  return mesh::make_training_plan(layout, small_gpt(4), places_of(c), conditions);
}

TEST(PlanDecisions, AreNoneWhereTheRunFileLeavesNothingOpen) {
  const Case c{"two", {{1, 1}, {1, 1}}, {2, 2}};
  const mesh::TrainingPlan plan = plan_with(layout_of(c, "1f1b", transfer::ReshardAlgorithm::kWeft),
                                            c, {.checkpoint_copies = mesh::CopyMode::kYes});
  EXPECT_TRUE(plan.decisions.all().empty());
  EXPECT_EQ(mesh::describe(plan).find("decisions"), std::string::npos);
}

TEST(PlanDecisions, SayHowOftenParametersAreGatheredAndWhy) {
  const Case c{"fsdp", {{2, 1}}, {4}};
  mesh::ParallelConfig layout = layout_of(c, "1f1b", transfer::ReshardAlgorithm::kWeft);
  layout.meshes.front().axes = {{"data", 2}};
  layout.meshes.front().layout = mesh::LayoutChoice{"fsdp", {}};
  const mesh::TrainingPlan without_limit = plan_with(layout, c);
  EXPECT_EQ(choice_of(without_limit, PlanQuestion::kGather), "once per microbatch");
  layout.memory = std::uint64_t{1} << 40;
  const mesh::TrainingPlan roomy = plan_with(layout, c);
  EXPECT_EQ(choice_of(roomy, PlanQuestion::kGather), "once per step");
  EXPECT_THAT(mesh::describe(roomy),
              HasSubstr("  gather: once per step: it sends less, and pipeline.memory, 1 TiB"));
  layout.memory = largest_memory(roomy) - 1;
  const mesh::TrainingPlan narrow = plan_with(layout, c);
  EXPECT_EQ(choice_of(narrow, PlanQuestion::kGather), "once per microbatch");
  EXPECT_THAT(mesh::describe(narrow), HasSubstr("once per step would exceed pipeline.memory"));
}

TEST(PlanDecisions, NameTheFirstScheduleOfAutoAndTheOnesThatMemoryRefuses) {
  const Case c{"two", {{1, 1}, {1, 1}}, {2, 2}};
  mesh::ParallelConfig layout =
      layout_of(c, std::string(mesh::ParallelConfig::kAuto), transfer::ReshardAlgorithm::kWeft);
  const mesh::TrainingPlan first = plan_with(layout, c);
  EXPECT_EQ(choice_of(first, PlanQuestion::kSchedule), "begin with " + first.schedule.name);
  layout.memory = largest_memory(first) - 1;
  const mesh::TrainingPlan next = plan_with(layout, c);
  EXPECT_NE(next.schedule.name, first.schedule.name);
  EXPECT_EQ(choice_of(next, PlanQuestion::kSchedule), "begin with " + next.schedule.name);
  EXPECT_THAT(mesh::describe(next), HasSubstr("is too little for " + first.schedule.name));
}

TEST(PlanDecisions, OnCopiesAreRepeatedByAPlanOfTheSameConditions) {
  const Case c{"two", {{1, 1}, {1, 1}}, {2, 2}};
  mesh::ParallelConfig layout = layout_of(c, "1f1b", transfer::ReshardAlgorithm::kWeft);
  const mesh::PlanConditions conditions{.checkpoint_copies = mesh::CopyMode::kIfMemoryAllows,
                                        .snapshots = mesh::CopyMode::kIfMemoryAllows};
  const mesh::TrainingPlan roomy = plan_with(layout, c, conditions);
  EXPECT_EQ(choice_of(roomy, PlanQuestion::kCheckpointCopies), "yes");
  EXPECT_EQ(choice_of(roomy, PlanQuestion::kSnapshots), "yes");
  layout.memory = largest_memory(roomy) - 1;
  const mesh::TrainingPlan narrow = plan_with(layout, c, conditions);
  EXPECT_EQ(choice_of(narrow, PlanQuestion::kSnapshots), "no");
  EXPECT_THAT(narrow.decisions.reason_declined(PlanQuestion::kSnapshots),
              HasSubstr("would exceed pipeline.memory"));
  const mesh::TrainingPlan again = plan_with(narrow.layout, c, narrow.conditions);
  EXPECT_TRUE(again.snapshots.empty());
  EXPECT_EQ(again.copies_checkpoints(), narrow.copies_checkpoints());
  EXPECT_TRUE(again.decisions.all().empty()) << "nothing was left open";
}

}  // namespace
}  // namespace weft::test

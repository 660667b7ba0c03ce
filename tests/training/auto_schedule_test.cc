// Tests schedule `auto`: its first schedule, its choice for made-up times and memory limits, and
// that losses equal those of other schedules bit for bit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "mesh/costs/schedule_tuner.h"
#include "mesh/plan/observed_network.h"
#include "mesh/plan/plan_memory.h"
#include "mesh/runtime/in_process_training.h"
#include "tests/support/thrown_error.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

/// Makes a layout of four layers with a stage on each of these meshes.
mesh::ParallelConfig auto_layout(const std::vector<int>& mesh_of_stage) {
  Case c{"auto", {}, {}, false};
  c.meshes.assign(static_cast<std::size_t>(*std::ranges::max_element(mesh_of_stage)) + 1, {1, 1});
  c.layers.assign(c.meshes.size(), 1);
  mesh::ParallelConfig layout = layout_of(c, "auto", transfer::ReshardAlgorithm::kWeft);
  layout.stages.clear();
  const int stages = mesh_of_stage.size();
  for (int stage = 0; stage < stages; ++stage) {
    layout.stages.push_back({mesh_of_stage[stage], stage == 0 ? 5 - stages : 1});
  }
  return layout;
}

mesh::TrainingPlan plan_for(const mesh::ParallelConfig& layout) {
  Case c{"auto", {}, {}, false};
  c.meshes.assign(layout.meshes.size(), {1, 1});
  return mesh::make_training_plan(layout, small_gpt(4), places_of(c));
}

/// Makes the result of a step of `step_seconds`. F, I and W take 1, 1.2 and 0.8 ms, transfers take
/// `transfer_ms`.
mesh::StepResult made_up(const mesh::TrainingPlan& plan, double step_seconds,
                         double transfer_ms = 1.5) {
  mesh::StepResult result;
  result.seconds = step_seconds;
  for (int stage = 0; stage < std::ssize(plan.layout.stages); ++stage) {
    for (const auto& [kind, ms] :
         {std::pair(mesh::ActionKind::kForward, 1.0), std::pair(mesh::ActionKind::kInputGrad, 1.2),
          std::pair(mesh::ActionKind::kWeightGrad, 0.8)}) {
      result.action_times.push_back({stage, kind, kMicrobatches, ms * 1e-3, 0});
    }
  }
  for (const mesh::PlannedEdge& edge : plan.train.edges)
    result.edge_times.push_back({edge.op, kMicrobatches, transfer_ms * 1e-3});
  return result;
}

std::vector<mesh::StepResult> reference(int steps) {
  mesh::ParallelConfig layout = auto_layout({0, 1});
  layout.schedule = "1f1b";
  const mesh::TrainingPlan plan = plan_for(layout);
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::InProcessTraining training(plan, batches, 7);
  std::vector<mesh::StepResult> results;
  for (int step = 0; step < steps; ++step) results.push_back(training.run(train_step(step)));
  return results;
}

TEST(ObservedNetwork, AHostOfWhichASenderHasNotBeenSeenIsLeftAlone) {
  const mesh::TrainingPlan plan =
      plan_of(master_cases()[2], "1f1b", transfer::ReshardAlgorithm::kWeft);
  std::vector<double> senders, others;
  for (const mesh::Program& program : plan.train.programs) {
    const auto leaves = [](const mesh::Transfer& one) {
      return one.kind == mesh::TransferPurpose::kReshard && one.bytes_sent() > 0;
    };
    const bool sends = std::ranges::any_of(program.transfers, leaves);
    senders.push_back(sends ? 1e6 : 0);
    others.push_back(sends ? 0 : 1e6);
  }
  EXPECT_NE(mesh::observed_network(plan, senders), plan.network);
  EXPECT_EQ(mesh::observed_network(plan, others), plan.network);
}

struct Begin {
  std::string name;
  std::vector<int> mesh_of_stage;
  std::string begins_with;
  bool changes = true;  ///< True if the tuner finds a faster schedule.
};

class AutoSchedule : public testing::TestWithParam<Begin> {};

TEST_P(AutoSchedule, ChangesBetweenStepsAndLeavesLossesAsTheyAre) {
  constexpr int kSteps = 10;
  static const std::vector<mesh::StepResult> expected = reference(kSteps);
  mesh::TrainingPlan plan = plan_for(auto_layout(GetParam().mesh_of_stage));
  EXPECT_EQ(plan.schedule.name, GetParam().begins_with);
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::InProcessTraining training(plan, batches, 7);
  mesh::ScheduleTuner tuner;
  int notes = 0;
  for (int step = 0; step < kSteps; ++step) {
    mesh::StepResult result = training.run(train_step(step));
    EXPECT_EQ(result.loss, expected[static_cast<std::size_t>(step)].loss) << "step " << step;
    EXPECT_EQ(result.grad_norm, expected[static_cast<std::size_t>(step)].grad_norm)
        << "step " << step;
    mesh::ScheduleTuner::Advice advice =
        tuner.after_step(plan, made_up(plan, step < 4 ? 2.0 : 1.0), plan_for);
    notes += advice.note.empty() ? 0 : 1;
    EXPECT_TRUE(advice.plan.has_value() == false || step == 3)
        << "step " << step << ": " << advice.note;
    if (!advice.plan) continue;
    EXPECT_EQ(advice.plan->schedule.name, "auto");
    plan = std::move(*advice.plan);
    training.use(plan);
  }
  EXPECT_EQ(plan.schedule.name == "auto", GetParam().changes);
  EXPECT_EQ(notes, GetParam().changes ? 2 : 1);
}

INSTANTIATE_TEST_SUITE_P(Placements, AutoSchedule,
                         testing::Values(Begin{"line", {0, 1, 2}, "zb-h1"},
                                         Begin{"v", {0, 1, 1, 0}, "zb-v"},
                                         Begin{"loop", {0, 1, 0, 1}, "zb-h1"},
                                         Begin{"blocks", {0, 0, 1, 1}, "list scheduling", false}),
                         [](const auto& test) { return test.param.name; });

/// Runs the tuner over made-up steps: four of `before` seconds, then of `after` seconds.
std::vector<mesh::ScheduleTuner::Advice> advise(const mesh::TrainingPlan& first, double before,
                                                double after, double transfer_ms) {
  mesh::ScheduleTuner tuner;
  std::vector<mesh::ScheduleTuner::Advice> given;
  mesh::TrainingPlan plan = first;
  for (int step = 0; step < 10; ++step) {
    mesh::ScheduleTuner::Advice advice =
        tuner.after_step(plan, made_up(plan, step < 4 ? before : after, transfer_ms), plan_for);
    if (advice.plan) plan = *advice.plan;
    if (advice.plan || !advice.note.empty()) given.push_back(std::move(advice));
  }
  return given;
}

TEST(ScheduleTuner, TellsWhatItHasDoneAndWhatCameOfIt) {
  const auto given = advise(plan_for(auto_layout({0, 1, 2})), 2.0, 1.5, 1.5);
  ASSERT_EQ(given.size(), 2u);
  EXPECT_THAT(given[0].note, HasSubstr("(zb-h1: measured 2.0 s"));
  EXPECT_THAT(given[0].note, HasSubstr("expected step time "));
  EXPECT_THAT(given[1].note, HasSubstr("a step takes 1.5 s; simulation"));
  EXPECT_FALSE(given[1].plan.has_value());
}

TEST(ScheduleTuner, GoesBackWhereTheJobHasBecomeSlower) {
  const auto given = advise(plan_for(auto_layout({0, 1, 2})), 2.0, 2.5, 1.5);
  ASSERT_EQ(given.size(), 2u);
  EXPECT_THAT(given[1].note, HasSubstr("a step takes 2.5 s; simulation"));
  EXPECT_THAT(given[1].note, HasSubstr("switching back"));
  ASSERT_TRUE(given[1].plan.has_value());
  EXPECT_EQ(given[1].plan->schedule.name, "zb-h1");
  EXPECT_FALSE(given[1].plan->layout.searches());
}

TEST(ScheduleTuner, SaysSoWhereTheSameWorkTakesLongerThanBefore) {
  const mesh::TrainingPlan first = plan_for(auto_layout({0, 1, 2}));
  for (const bool longer : {false, true}) {
    mesh::ScheduleTuner tuner;
    mesh::TrainingPlan plan = first;
    std::string last;
    for (int step = 0; step < 8; ++step) {
      mesh::StepResult result = made_up(plan, step < 4 ? 2.0 : 2.5);
      for (mesh::ActionTime& time : result.action_times)
        time.seconds *= longer && step >= 4 ? 1.25 : 1;
      mesh::ScheduleTuner::Advice advice = tuner.after_step(plan, result, plan_for);
      if (advice.plan) plan = std::move(*advice.plan);
      if (!advice.note.empty()) last = advice.note;
    }
    EXPECT_THAT(last, HasSubstr("switching back"));
    if (longer) EXPECT_THAT(last, HasSubstr("its ops take 1.25 times as long, because"));
    else EXPECT_THAT(last, testing::Not(HasSubstr("its ops take")));
  }
}

TEST(ScheduleTuner, LeavesANamedScheduleAndOneDeviceAlone) {
  mesh::ParallelConfig named = auto_layout({0, 1, 2});
  named.schedule = "zb-h1";
  EXPECT_TRUE(advise(plan_for(named), 2.0, 2.0, 1.5).empty());
  const auto given = advise(plan_for(auto_layout({0})), 2.0, 2.0, 1.5);
  ASSERT_EQ(given.size(), 1u);
  EXPECT_THAT(given[0].note, HasSubstr("keeping zb-h1"));
}

std::uint64_t most_memory(const mesh::TrainingPlan& plan) {
  std::uint64_t most = 0;
  for (const mesh::Program& program : plan.train.programs)
    most = std::max(most, mesh::device_memory(plan, program.device));
  return most;
}

TEST(PipelineMemory, BoundsWhatTheCompiledProgramsHold) {
  mesh::ParallelConfig layout = auto_layout({0, 1, 2});
  const std::uint64_t begins_with = most_memory(plan_for(layout));
  // The times favour more microbatches in flight. Memory allows none, some or all of them.
  for (const std::uint64_t cap : {begins_with, begins_with + begins_with / 16, 4 * begins_with}) {
    layout.memory = cap;
    const auto given = advise(plan_for(layout), 2.0, 1.0, 4);
    ASSERT_FALSE(given.empty());
    if (!given[0].plan) continue;
    EXPECT_EQ(given[0].plan->layout.memory, cap);
    EXPECT_LE(most_memory(*given[0].plan), cap);
    EXPECT_FALSE(mesh::find_device_beyond_memory(*given[0].plan).has_value());
  }
  layout.memory.reset();
  EXPECT_GT(most_memory(*advise(plan_for(layout), 2.0, 1.0, 4)[0].plan), begins_with);
}

TEST(PipelineMemory, WhereTheFirstScheduleDoesNotFitTheRunBeginsWithASmallerOne) {
  mesh::ParallelConfig layout = auto_layout({0, 1, 2});
  const std::uint64_t begins_with = most_memory(plan_for(layout));
  layout.memory = begins_with - 1;
  const mesh::TrainingPlan smaller = plan_for(layout);
  EXPECT_NE(smaller.schedule.name, "zb-h1");
  EXPECT_LT(most_memory(smaller), begins_with);
}

TEST(PipelineMemory, TooLittleIsExplained) {
  mesh::ParallelConfig layout = auto_layout({0, 1});
  layout.schedule = "gpipe";
  layout.memory = most_memory(plan_for(layout));
  EXPECT_NO_THROW(plan_for(layout));
  --*layout.memory;
  EXPECT_THAT([&] { plan_for(layout); },
              throws_error(ErrorCode::kInvalidConfig, "schedule 'gpipe' needs",
                           "but pipeline.memory is", "a schedule that holds fewer microbatches"));
  layout.schedule = "auto";
  layout.memory = 1000;
  EXPECT_THAT([&] { plan_for(layout); },
              throws_error(ErrorCode::kInvalidConfig, "but pipeline.memory is"));
}

}  // namespace
}  // namespace weft::test

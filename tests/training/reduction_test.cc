// Tests schedules with explicit gradient reductions: equal sums, reduced during other computation.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "mesh/runtime/in_process_training.h"
#include "mesh/schedule/named_schedules.h"
#include "mesh/schedule/schedule_text.h"
#include "tests/support/thrown_error.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"
#include "tests/training/same_bits.h"

namespace weft::test {
namespace {
using ::testing::HasSubstr;

constexpr std::uint64_t kReductionSteps = 5;
const Case kData2{"data_2", {{2, 1}, {2, 1}}, {1, 1}, true};

/// Adds REDUCE_GRAD after each stage's last weight gradient, and all OPTs at the end.
mesh::Schedule with_reductions(mesh::Schedule schedule) {
  for (std::vector<mesh::Action>& actions : schedule.actors) {
    std::vector<mesh::Action> all, updates;
    for (const mesh::Action& action : actions) {
      all.push_back(action);
      if (!mesh::gives_weight_grad(action.kind) || action.microbatch + 1 < schedule.microbatches)
        continue;
      all.push_back({action.stage, mesh::ActionKind::kReduceGrad, mesh::kNoMicrobatch});
      updates.push_back({action.stage, mesh::ActionKind::kOptimizer, mesh::kNoMicrobatch});
    }
    all.insert(all.end(), updates.begin(), updates.end());
    actions = std::move(all);
  }
  return schedule;
}

/// Makes a plan of a four-layer GPT on two data-parallel meshes, with the schedule's number of
/// equal stages.
mesh::TrainingPlan data_parallel_plan(const mesh::Schedule& schedule, bool tied = false,
                                      mesh::Lowering lowering = mesh::Lowering::kLanes) {
  mesh::ParallelConfig layout = layout_of(kData2, "1f1b", transfer::ReshardAlgorithm::kWeft);
  layout.stages.clear();
  for (const int actor : schedule.actor_of_stage)
    layout.stages.push_back({actor, 4 / schedule.stages});
  layout.own_schedule = schedule;
  layout.lowering = lowering;
  return mesh::make_training_plan(layout, small_gpt(4, tied), places_of(kData2));
}

std::vector<mesh::StepResult> train_shuffled(const mesh::TrainingPlan& plan) {
  RandomBatches batches({kRows, kVocabulary, 11});
  transfer::LoopbackOptions shuffled;
  shuffled.shuffle_seed = 3;
  mesh::InProcessTraining training(plan, batches, 7, shuffled);
  std::vector<mesh::StepResult> results;
  for (std::uint64_t step = 0; step < kReductionSteps; ++step)
    results.push_back(training.run(train_step(step)));
  return results;
}

class Reduction : public testing::TestWithParam<std::tuple<std::string, bool, mesh::Lowering>> {};

TEST_P(Reduction, WhereItStandsDoesNotChangeTheSums) {
  const auto& [name, tied, lowering] = GetParam();
  const mesh::NamedSchedule& named = mesh::find_named_schedule(name);
  const mesh::Schedule schedule = mesh::make_schedule(name, 2 * named.chunks, kMicrobatches);
  const auto expected = train_shuffled(data_parallel_plan(schedule, tied, lowering));
  const auto results =
      train_shuffled(data_parallel_plan(with_reductions(schedule), tied, lowering));
  ASSERT_LT(expected.back().loss, expected.front().loss);
  expect_same_bits(results, expected);
}

INSTANTIATE_TEST_SUITE_P(
    All, Reduction,
    testing::Combine(testing::Values("1f1b", "zb-h1", "interleaved-1f1b", "zb-v", "dualpipe-v"),
                     testing::Bool(),
                     testing::Values(mesh::Lowering::kLanes, mesh::Lowering::kSafe)),
    [](const auto& test) {
      std::string name = std::get<0>(test.param) + (std::get<1>(test.param) ? "_tied" : "_apart") +
                         (std::get<2>(test.param) == mesh::Lowering::kSafe ? "_safe" : "_lanes");
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(Reduction, IsUnderWayWhileOtherStagesCompute) {
  const mesh::TrainingPlan plan =
      data_parallel_plan(with_reductions(mesh::make_schedule("zb-v", 4, kMicrobatches)));
  const mesh::Program& program = plan.train.programs[0];  // stages 0 and 3
  std::string action, started_in;
  std::uint32_t handle = 0;
  int computed = 0;
  for (const mesh::Instruction& instruction : program.instructions) {
    if (const auto* begin = std::get_if<mesh::BeginAction>(&instruction))
      action = to_string(mesh::Action{begin->stage, begin->kind, begin->microbatch});
    const auto* start = std::get_if<mesh::Start>(&instruction);
    if (start != nullptr &&
        program.transfers[start->transfer].name == "all-reduce gradients/data of stage 3, 0") {
      started_in = action;
      handle = start->handle;
    }
    if (started_in.empty()) continue;
    if (std::holds_alternative<mesh::Run>(instruction)) ++computed;
    if (const auto* wait = std::get_if<mesh::Wait>(&instruction);
        wait != nullptr && wait->handle == handle)
      break;
  }
  EXPECT_EQ(started_in, "3REDUCE_GRAD");
  EXPECT_GT(computed, 10);
  EXPECT_EQ(action, "0OPT");
}

/// Returns the number of ops that run while a transfer is under way.
int runs_during(const mesh::Program& program, const std::string& transfer) {
  std::optional<std::uint32_t> handle;
  int runs = 0;
  for (const mesh::Instruction& instruction : program.instructions) {
    const auto* start = std::get_if<mesh::Start>(&instruction);
    if (start != nullptr && program.transfers[start->transfer].name == transfer)
      handle = start->handle;
    if (handle && std::holds_alternative<mesh::Run>(instruction)) ++runs;
    if (const auto* wait = std::get_if<mesh::Wait>(&instruction);
        wait != nullptr && wait->handle == handle)
      return runs;
  }
  ADD_FAILURE() << "'" << transfer << "' is not in the program";
  return runs;
}

TEST(Reduction, OfAllLayersButTheLastIsUnderWayDuringTheBackward) {
  const mesh::TrainingPlan plan = data_parallel_plan(mesh::make_schedule("1f1b", 2, kMicrobatches));
  const mesh::Program& program = plan.train.programs[0];  // stage 0: the embedding and two layers
  std::vector<int> runs;
  for (const mesh::Transfer& transfer : program.transfers)
    if (transfer.kind == mesh::TransferPurpose::kAllReduce)
      runs.push_back(runs_during(program, transfer.name));
  ASSERT_EQ(runs.size(), 2u) << "one bucket per layer";
  EXPECT_TRUE(std::is_sorted(runs.rbegin(), runs.rend()));
  EXPECT_EQ(runs.back(), 0);
  EXPECT_GT(runs[runs.size() - 2], 0);
}

// With one device per mesh, no reduction comes before.
TEST(Reduction, ATermOfASharedParameterTravelsDuringTheLastBackward) {
  mesh::ParallelConfig layout = layout_of(Case{"two", {{1, 1}, {1, 1}}, {2, 2}, true}, "1f1b",
                                          transfer::ReshardAlgorithm::kWeft);
  const mesh::TrainingPlan plan = mesh::make_training_plan(
      layout, small_gpt(4, true), places_of(Case{"two", {{1, 1}, {1, 1}}, {2, 2}, true}));
  const std::string term = "gradient of embedding mesh1->mesh0";
  EXPECT_GT(runs_during(plan.train.programs[1], term), 10) << "the sender";
  EXPECT_GT(runs_during(plan.train.programs[0], term), 10) << "the receiver";
}

TEST(Reduction, InATraceUpdatesStandBehindAllElse) {
  const mesh::Schedule schedule = mesh::make_schedule("zb-v", 4, kMicrobatches);
  // With tied embeddings, terms of the gradient are sent during the last backwards.
  for (const mesh::TrainingPlan& plan :
       {data_parallel_plan(schedule), data_parallel_plan(with_reductions(schedule)),
        data_parallel_plan(mesh::make_schedule("1f1b", 2, kMicrobatches), true)}) {
    RandomBatches batches({kRows, kVocabulary, 11});
    mesh::InProcessTraining training(plan, batches, 7);
    mesh::StepRequest request = train_step(0);
    request.trace = true;
    for (const mesh::StepReport& report : training.run_on_devices(request)) {
      std::vector<bool> updates;  // one per computation, in order
      for (const TraceEvent& event : report.trace) {
        if (event.lane == TraceLane::kCompute && event.kind != TraceKind::kWait)
          updates.push_back(event.kind == TraceKind::kUpdate);
      }
      EXPECT_TRUE(std::is_sorted(updates.begin(), updates.end()));
      EXPECT_TRUE(updates.back());
    }
  }
}

/// Returns the error of a schedule of two stages on two meshes with four microbatches.
std::string refusal(ErrorCode code, const std::string& first_row) {
  return error_message(code, [&] {
    data_parallel_plan(
        mesh::read_schedule(first_row + "\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n", "mine").schedule);
  });
}

TEST(Reduction, AScheduleFileMayNameItWhereItCanBeDone) {
  const std::string row = "0F0,0F1,0B0,0F2,0B1,0F3,0B2,";
  EXPECT_EQ(refusal(ErrorCode::kInvalidConfig, row + "0B3,0REDUCE_GRAD,0OPT"), "");
  EXPECT_THAT(refusal(ErrorCode::kInvalidArgument, row + "0REDUCE_GRAD,0B3,0OPT"),
              HasSubstr("0REDUCE_GRAD, which waits for 0B3"));
  EXPECT_THAT(refusal(ErrorCode::kInvalidConfig, row + "0B3,0OPT,0REDUCE_GRAD"),
              HasSubstr("schedule 'mine', actor 0: 0REDUCE_GRAD follows 0OPT, but all stages take "
                        "their optimizer step together, after the norm of all gradients is known; "
                        "move OPT to the end of the row"));
  EXPECT_THAT(
      refusal(ErrorCode::kInvalidConfig, row + "0S0,0B3"),
      HasSubstr("schedule 'mine', actor 0: 0S0 is a vocabulary pass, but here the first stage"));
}

}  // namespace
}  // namespace weft::test

// Tests that parameters and moments are sent to the driver and back, also to other meshes.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "mesh/plan/plan_memory.h"
#include "mesh/plan/plan_text.h"
#include "mesh/runtime/in_process_training.h"
#include "tests/support/thrown_error.h"
#include "tests/training/checkpoint_blocks.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"

namespace weft::test {
namespace {

std::vector<double> losses(mesh::InProcessTraining& training, std::uint64_t from,
                           std::uint64_t to) {
  std::vector<double> result;
  for (std::uint64_t step = from; step < to; ++step)
    result.push_back(training.run(train_step(step)).loss);
  return result;
}

class Resume : public testing::TestWithParam<std::pair<std::size_t, std::size_t>> {};

TEST_P(Resume, ContinuesTheLossCurve) {
  const Case first = master_cases()[GetParam().first], second = master_cases()[GetParam().second];
  const mesh::TrainingPlan plan =
      plan_of(first, "eager-1f1b", transfer::ReshardAlgorithm::kBroadcast);
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::InProcessTraining whole(plan, batches, 7);
  losses(whole, 0, 5);
  const Blocks blocks = gather(whole);
  const auto expected = losses(whole, 5, 10);

  const mesh::TrainingPlan other_plan =
      plan_of(second, "1f1b", transfer::ReshardAlgorithm::kLocalAllgather);
  // A different seed: the initial state must not matter.
  mesh::InProcessTraining resumed(other_plan, batches, 8);
  scatter(resumed, blocks);
  const auto continued = losses(resumed, 5, 10);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (GetParam().first == GetParam().second) {
      EXPECT_EQ(continued[i], expected[i]) << "step " << 5 + i;
    } else {
      EXPECT_NEAR(continued[i], expected[i], 1e-4 * std::abs(expected[i])) << "step " << 5 + i;
    }
  }
  EXPECT_EQ(gather(resumed).size(), blocks.size());
}

INSTANTIATE_TEST_SUITE_P(Layouts, Resume,
                         testing::Values(std::pair(4, 4), std::pair(7, 7), std::pair(4, 0),
                                         std::pair(0, 6), std::pair(7, 1)),
                         [](const auto& test) {
                           return master_cases()[test.param.first].name + "_to_" +
                                  master_cases()[test.param.second].name;
                         });

/// Checkpoints have f32 values in both precisions.
TEST(ResumeInBf16, AnF32RunGoesOnInBf16AndBackOnOtherMeshes) {
  RandomBatches batches({kRows, kVocabulary, 11});
  const mesh::TrainingPlan f32 =
      plan_of(master_cases()[4], "eager-1f1b", transfer::ReshardAlgorithm::kWeft);
  const mesh::TrainingPlan bf16 =
      plan_of(master_cases()[7], "1f1b", transfer::ReshardAlgorithm::kWeft, DType::kBF16);
  mesh::InProcessTraining first(f32, batches, 7), second(bf16, batches, 8), third(f32, batches, 9),
      same(bf16, batches, 10);
  losses(first, 0, 5);
  const Blocks at_5 = gather(first);
  scatter(second, at_5);
  EXPECT_EQ(gather(second), at_5) << "values come back as they went in, not rounded";
  const auto near = [](const std::vector<double>& values, const std::vector<double>& expected) {
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(values[i], expected[i], 0.01 * expected[i]) << i;
  };
  near(losses(second, 5, 8), losses(first, 5, 8));
  const Blocks at_8 = gather(second);
  scatter(third, at_8);
  scatter(same, at_8);
  const auto in_bf16 = losses(second, 8, 11);
  near(losses(third, 8, 11), in_bf16);
  EXPECT_EQ(losses(same, 8, 11), in_bf16) << "working copies are rounded from the values that came";
}

class SmallBuffer : public testing::TestWithParam<std::pair<std::size_t, std::uint64_t>> {};

/// Tensors larger than the driver's buffer are sent in slices of rows, with equal bits on every
/// mesh.
TEST_P(SmallBuffer, TheSameBitsPassThroughABufferOfAnySize) {
  const auto [layout, bytes] = GetParam();
  const Case c = master_cases()[layout];
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    const mesh::ParallelConfig config = layout_of(c, "1f1b", transfer::ReshardAlgorithm::kWeft);
    const mesh::TrainingPlan whole_plan =
        mesh::make_training_plan(config, small_gpt(3, false, precision), places_of(c));
    const mesh::TrainingPlan plan = mesh::make_training_plan(
        config, small_gpt(3, false, precision), places_of(c), {.checkpoint_buffer = bytes});
    ASSERT_EQ(whole_plan.checkpoint.size(), 1u);
    ASSERT_GT(plan.checkpoint.size(), 10u);
    // The buffer holds at least a row of the widest tensor.
    EXPECT_LE(mesh::checkpoint_buffer_bytes(plan.checkpoint),
              std::max<std::uint64_t>(bytes, 4 * 61 * 3) + 64);
    RandomBatches batches({kRows, kVocabulary, 11});
    mesh::InProcessTraining training(plan, batches, 7), reference(whole_plan, batches, 7),
        resumed(plan, batches, 8);
    EXPECT_EQ(losses(training, 0, 3), losses(reference, 0, 3));
    const Blocks blocks = gather(training);
    EXPECT_EQ(blocks, gather(reference));
    scatter(resumed, blocks);
    EXPECT_EQ(gather(resumed), blocks);
    EXPECT_EQ(losses(resumed, 3, 5), losses(training, 3, 5));
  }
}

TEST_P(SmallBuffer, GatheringFromCopiesGivesTheCopiedStateAndDoesNotChangeSteps) {
  const auto [layout, bytes] = GetParam();
  const Case c = master_cases()[layout];
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    const mesh::ParallelConfig config = layout_of(c, "1f1b", transfer::ReshardAlgorithm::kWeft);
    mesh::PlanConditions conditions{.checkpoint_buffer = bytes};
    const mesh::TrainingPlan pausing =
        mesh::make_training_plan(config, small_gpt(3, false, precision), places_of(c), conditions);
    conditions.checkpoint_copies = mesh::CopyMode::kIfMemoryAllows;
    const mesh::TrainingPlan plan =
        mesh::make_training_plan(config, small_gpt(3, false, precision), places_of(c), conditions);
    ASSERT_TRUE(plan.copies_checkpoints());
    EXPECT_FALSE(pausing.copies_checkpoints());
    RandomBatches batches({kRows, kVocabulary, 11});
    mesh::InProcessTraining training(plan, batches, 7), reference(pausing, batches, 7);
    EXPECT_EQ(losses(training, 0, 3), losses(reference, 0, 3));
    const Blocks blocks = gather(reference);
    training.copy_state();
    EXPECT_EQ(losses(training, 3, 5), losses(reference, 3, 5));
    EXPECT_EQ(gather(training), blocks);
    EXPECT_EQ(losses(training, 5, 6), losses(reference, 5, 6));
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, SmallBuffer,
                         testing::Values(std::pair(0, 4096), std::pair(4, 1500), std::pair(4, 1),
                                         std::pair(7, 700)),
                         [](const auto& test) {
                           return master_cases()[test.param.first].name + "_" +
                                  std::to_string(test.param.second);
                         });

TEST(CheckpointCopies, CountAsMemoryOfTheDevicesThatSendAndAreGivenUpBeforeAnythingElse) {
  const Case c = master_cases()[7];
  mesh::ParallelConfig config = layout_of(c, "1f1b", transfer::ReshardAlgorithm::kWeft);
  mesh::PlanConditions conditions;
  const auto plan = [&] {
    return mesh::make_training_plan(config, small_gpt(3, false), places_of(c), conditions);
  };
  const mesh::TrainingPlan pausing = plan();
  conditions.checkpoint_copies = mesh::CopyMode::kIfMemoryAllows;
  const mesh::TrainingPlan copying = plan();
  std::uint64_t copies = 0, most = 0, most_pausing = 0, elements = 0;
  for (const mesh::Program& program : pausing.train.programs) {
    const std::uint64_t copied = mesh::checkpoint_copy_bytes(copying, program.device);
    EXPECT_EQ(mesh::device_memory(copying, program.device),
              mesh::device_memory(pausing, program.device) + copied);
    copies += copied;
    most = std::max(most, mesh::device_memory(copying, program.device));
    most_pausing = std::max(most_pausing, mesh::device_memory(pausing, program.device));
  }
  for (const Parameter& parameter : pausing.partition.graph.parameters())
    elements += pausing.partition.graph.value(parameter.value).type.elements();
  EXPECT_EQ(copies, 12 * elements) << "one replica of each shard, with both moments";
  EXPECT_THAT(mesh::describe(copying),
              testing::HasSubstr(
                  "training continues while a checkpoint is written, from copies of up to "));
  EXPECT_THAT(mesh::describe(pausing),
              testing::HasSubstr("training pauses while a checkpoint is written\n"));

  config.memory = most;
  EXPECT_TRUE(plan().copies_checkpoints());
  config.memory = most - 1;
  const mesh::TrainingPlan short_of_memory = plan();
  EXPECT_FALSE(short_of_memory.copies_checkpoints());
  EXPECT_TRUE(short_of_memory.checkpoint_copy.empty());
  EXPECT_THAT(mesh::describe(short_of_memory),
              testing::HasSubstr("training pauses while a checkpoint is written: a copy of "
                                 "parameters and moments takes up to "));
  EXPECT_FALSE(mesh::make_training_plan(short_of_memory.layout, small_gpt(3, false), places_of(c),
                                        short_of_memory.conditions)
                   .copies_checkpoints())
      << "layout and conditions of a plan make the same plan again";
  config.memory = most_pausing - 1;
  EXPECT_THAT([&] { plan(); }, throws_error(ErrorCode::kInvalidConfig, "but pipeline.memory is"))
      << "pipeline.memory is too little either way";

  config.memory = most - 1;
  for (std::uint32_t i = 0; i < pausing.topology.num_devices() - 1; ++i)
    conditions.device_places.push_back(
        {transfer::DeviceId(i), true, fmt::format("GPU {}", i), "", "", "not there"});
  EXPECT_TRUE(plan().copies_checkpoints()) << "GPUs have memory of their own";
}

TEST(Validation, ForwardOnlyProgramGivesTheLossAndChangesNothing) {
  const mesh::TrainingPlan plan =
      plan_of(master_cases()[4], "eager-1f1b", transfer::ReshardAlgorithm::kBroadcast);
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::InProcessTraining training(plan, batches, 7);
  mesh::StepRequest request;
  request.program = mesh::kValidateProgram;
  request.step = 0;
  const double as_training_batch = training.run(request).loss;
  EXPECT_EQ(training.run(train_step(0)).loss, as_training_batch);
  request.split = mesh::Split::kValidation;
  EXPECT_NE(training.run(request).loss, as_training_batch);
}

TEST(InProcess, AFailingReadEndsTheStepOnAllDevicesAndNamesTheCause) {
  class Broken final : public mesh::BatchSource {
   public:
    void read(std::string_view input, mesh::Split, std::uint64_t, int microbatch, int,
              const Region&, std::span<std::byte> out) override {
      if (input == "targets" && microbatch == 2)
        throw_error(ErrorCode::kDataLoss, "the token file is damaged");
      std::fill(out.begin(), out.end(), std::byte{0});
    }
  };
  const mesh::TrainingPlan plan =
      plan_of(master_cases()[7], "eager-1f1b", transfer::ReshardAlgorithm::kBroadcast);
  Broken batches;
  mesh::InProcessTraining training(plan, batches, 7);
  EXPECT_THAT([&] { training.run(train_step(0)); },
              throws_error(
                  ErrorCode::kDataLoss,
                  ::testing::MatchesRegex("reading the input 'targets' of step 0, microbatch 2, on "
                                          "[a-z0-9,]+\\[[0-9,]+\\]: the token file is damaged")));
}

}  // namespace
}  // namespace weft::test

// Tests that each mesh, sharding, strategy and schedule gives the losses of one device on the same
// microbatches (the master test).

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <tuple>
#include <variant>

#include "mesh/runtime/in_process_training.h"
#include "mesh/schedule/named_schedules.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"

namespace weft::test {
namespace {

constexpr int kMasterSteps = 20;
constexpr std::uint64_t kSeed = 7;

std::vector<mesh::StepResult> train_gpt(const Case& c, const std::string& schedule,
                                        transfer::ReshardAlgorithm strategy,
                                        transfer::LoopbackOptions options = {},
                                        DType precision = DType::kF32) {
  const mesh::TrainingPlan plan = plan_of(c, schedule, strategy, precision);
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::InProcessTraining training(plan, batches, kSeed, options);
  std::vector<mesh::StepResult> results;
  for (int step = 0; step < kMasterSteps; ++step) results.push_back(training.run(train_step(step)));
  return results;
}

std::string printable(std::string name) {
  for (char& letter : name)
    letter = std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
  return name;
}

const std::vector<mesh::StepResult>& gpt_on_one_device() {
  static const std::vector<mesh::StepResult> results =
      train_gpt(master_cases().front(), "gpipe", transfer::ReshardAlgorithm::kBroadcast);
  return results;
}

class Master
    : public testing::TestWithParam<std::tuple<Case, std::string, transfer::ReshardAlgorithm>> {};

TEST_P(Master, LossesEqualThoseOfOneDevice) {
  const auto& [c, schedule, strategy] = GetParam();
  const auto results = train_gpt(c, schedule, strategy);
  const auto& expected = gpt_on_one_device();
  ASSERT_LT(expected.back().loss, expected.front().loss - 0.1);
  for (std::size_t step = 0; step < kMasterSteps; ++step) {
    if (c.reorders_sums) {
      const double tolerance = step < 3 ? 1e-5 : 2e-4;
      EXPECT_NEAR(results[step].loss, expected[step].loss,
                  tolerance * std::abs(expected[step].loss))
          << "step " << step;
    } else {
      EXPECT_EQ(results[step].loss, expected[step].loss) << "step " << step;
      EXPECT_EQ(results[step].grad_norm, expected[step].grad_norm) << "step " << step;
    }
  }
}

TEST_P(Master, TwoRunsAreBitIdenticalWhateverTheOrderOfArrival) {
  const auto& [c, schedule, strategy] = GetParam();
  transfer::LoopbackOptions shuffled;
  shuffled.shuffle_seed = 3;
  const auto a = train_gpt(c, schedule, strategy);
  const auto b = train_gpt(c, schedule, strategy, shuffled);
  for (std::size_t step = 0; step < kMasterSteps; ++step) {
    EXPECT_EQ(a[step].loss, b[step].loss) << "step " << step;
    EXPECT_EQ(a[step].grad_norm, b[step].grad_norm) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Master,
    testing::Combine(testing::ValuesIn(master_cases()),
                     testing::ValuesIn(mesh::one_stage_schedule_names()),
                     testing::Values(transfer::ReshardAlgorithm::kSendRecv,
                                     transfer::ReshardAlgorithm::kLocalAllgather,
                                     transfer::ReshardAlgorithm::kBroadcast,
                                     transfer::ReshardAlgorithm::kWeft)),
    [](const auto& test) {
      return printable(std::get<0>(test.param).name + "_" + std::get<1>(test.param) + "_" +
                       std::string(transfer::to_string(std::get<2>(test.param))));
    });

class MasterBF16 : public testing::TestWithParam<std::tuple<Case, std::string>> {};

/// Bf16: another order of sums rounds to a value 2^-8 away. Partial sums are rounded before the
/// addition.
TEST_P(MasterBF16, LossesEqualThoseOfOneDeviceInBf16) {
  const auto& [c, schedule] = GetParam();
  static const auto expected = train_gpt(master_cases().front(), "gpipe",
                                         transfer::ReshardAlgorithm::kWeft, {}, DType::kBF16);
  transfer::LoopbackOptions shuffled;
  shuffled.shuffle_seed = 3;
  const auto results =
      train_gpt(c, schedule, transfer::ReshardAlgorithm::kWeft, shuffled, DType::kBF16);
  ASSERT_LT(expected.back().loss, expected.front().loss - 0.1);
  for (std::size_t step = 0; step < kMasterSteps; ++step) {
    EXPECT_NEAR(expected[step].loss, gpt_on_one_device()[step].loss,
                0.01 * gpt_on_one_device()[step].loss)
        << "f32, step " << step;
    if (c.reorders_sums) {
      EXPECT_NEAR(results[step].loss, expected[step].loss,
                  (step < 3 ? 1e-3 : 5e-3) * expected[step].loss)
          << "step " << step;
    } else {
      EXPECT_EQ(results[step].loss, expected[step].loss) << "step " << step;
      EXPECT_EQ(results[step].grad_norm, expected[step].grad_norm) << "step " << step;
    }
  }
  if (!c.reorders_sums) return;
  const auto again = train_gpt(c, schedule, transfer::ReshardAlgorithm::kWeft, {}, DType::kBF16);
  for (std::size_t step = 0; step < kMasterSteps; ++step)
    EXPECT_EQ(again[step].loss, results[step].loss) << "step " << step;
}

INSTANTIATE_TEST_SUITE_P(All, MasterBF16,
                         testing::Combine(testing::ValuesIn(master_cases()),
                                          testing::Values("eager-1f1b", "zb-h1")),
                         [](const auto& test) {
                           return printable(std::get<0>(test.param).name + "_" +
                                            std::get<1>(test.param));
                         });

/// Fusion stays within an action: zb-h1 computes weight gradients in actions of their own. The loss
/// is in the action of its gradient in every schedule.
TEST(FusedPrograms, HaveTheGradientsOfALayerNormInOneOpIfOneActionHasThemAndAlwaysThoseOfTheLoss) {
  for (const std::string schedule : {"1f1b", "zb-h1"}) {
    std::set<OpKind> kinds;
    const mesh::TrainingPlan plan =
        plan_of(master_cases()[1], schedule, transfer::ReshardAlgorithm::kWeft);
    for (const mesh::Program& program : plan.train.programs) {
      for (const mesh::Instruction& instruction : program.instructions) {
        const auto* run = std::get_if<mesh::Run>(&instruction);
        if (run == nullptr) continue;
        const OpKind kind = program.ops[run->op].kind;
        kinds.insert(kind);
        if (kind == OpKind::kLayerNormGrad || kind == OpKind::kLayerNormGradAdd) {
          EXPECT_TRUE(run->accumulate == 0 || run->accumulate == 6) << run->accumulate;
        }
      }
    }
    const bool together = schedule == "1f1b";
    EXPECT_EQ(kinds.contains(OpKind::kLayerNormGrad), together) << schedule;
    EXPECT_EQ(kinds.contains(OpKind::kLayerNormGradAdd), together) << schedule;
    EXPECT_EQ(kinds.contains(OpKind::kLayerNormInputGradAdd), !together) << schedule;
    EXPECT_EQ(kinds.contains(OpKind::kLayerNormInputGrad), !together) << schedule;
    EXPECT_EQ(kinds.contains(OpKind::kLayerNormWeightGrad), !together) << schedule;
    EXPECT_TRUE(kinds.contains(OpKind::kCrossEntropyWithGrad)) << schedule;
    EXPECT_FALSE(kinds.contains(OpKind::kCrossEntropy)) << schedule;
  }
}

/// A bf16 model has half the bytes of activations. It has a bf16 copy of the f32 parameters.
TEST(MemoryInBf16, ActivationsAreHalfAndAWorkingCopyIsAdded) {
  const Case c = master_cases()[1];
  const mesh::TrainingPlan f32 = plan_of(c, "1f1b", transfer::ReshardAlgorithm::kWeft),
                           bf16 =
                               plan_of(c, "1f1b", transfer::ReshardAlgorithm::kWeft, DType::kBF16);
  for (std::size_t device = 0; device < f32.train.programs.size(); ++device) {
    const mesh::Program &whole = f32.train.programs[device], &half = bf16.train.programs[device];
    EXPECT_NEAR(static_cast<double>(half.arena_bytes) / static_cast<double>(whole.arena_bytes), 0.5,
                0.02);
    const auto sum = [](const mesh::Program& program, const std::string& prefix) {
      std::uint64_t bytes = 0;
      for (const mesh::PersistentBlock& block : program.persistents)
        bytes += block.name.starts_with(prefix) ? block.bytes : 0;
      return bytes;
    };
    EXPECT_EQ(2 * sum(half, "working/"), sum(half, "parameter/"));
    EXPECT_EQ(sum(half, "") - sum(half, "working/"), sum(whole, ""));
  }
  ASSERT_EQ(bf16.train.edges.size(), f32.train.edges.size());
  for (std::size_t e = 0; e < f32.train.edges.size(); ++e) {
    EXPECT_EQ(2 * bf16.train.edges[e].plan.flows.front().bytes,
              f32.train.edges[e].plan.flows.front().bytes);
  }
}

}  // namespace
}  // namespace weft::test

// The master test: whatever mesh, sharding, strategy and schedule, the losses equal those of one device on the same microbatches.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <tuple>

#include "mesh/in_process/in_process_training.h"
#include "mesh/schedules/named_schedules.h"
#include "tests/training/layouts.h"
#include "tests/training/random_batches.h"

namespace weft::test {
namespace {

constexpr int kSteps = 20;
constexpr std::uint64_t kSeed = 7;

std::vector<mesh::StepResult> train(const Case& c, const std::string& schedule, transfer::Strategy strategy,
                                    transfer::LoopbackOptions options = {}) {
  const mesh::TrainingPlan plan = plan_of(c, schedule, strategy);
  RandomBatches batches({kRows, kVocabulary, 11});
  mesh::InProcessTraining training(plan, batches, kSeed, options);
  std::vector<mesh::StepResult> results;
  for (int step = 0; step < kSteps; ++step) results.push_back(training.run(train_step(static_cast<std::uint64_t>(step))));
  return results;
}

const std::vector<mesh::StepResult>& one_device() {
  static const std::vector<mesh::StepResult> results = train(master_cases().front(), "gpipe", transfer::Strategy::kBroadcast);
  return results;
}

class Master : public testing::TestWithParam<std::tuple<Case, std::string, transfer::Strategy>> {};

TEST_P(Master, LossesEqualThoseOfOneDevice) {
  const auto& [c, schedule, strategy] = GetParam();
  const auto results = train(c, schedule, strategy);
  const auto& expected = one_device();
  ASSERT_LT(expected.back().loss, expected.front().loss - 0.1);
  for (std::size_t step = 0; step < kSteps; ++step) {
    if (c.reorders_sums) {
      const double tolerance = step < 3 ? 1e-5 : 2e-4;
      EXPECT_NEAR(results[step].loss, expected[step].loss, tolerance * std::abs(expected[step].loss)) << "step " << step;
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
  const auto a = train(c, schedule, strategy);
  const auto b = train(c, schedule, strategy, shuffled);
  for (std::size_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(a[step].loss, b[step].loss) << "step " << step;
    EXPECT_EQ(a[step].grad_norm, b[step].grad_norm) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Master,
                         testing::Combine(testing::ValuesIn(master_cases()), testing::ValuesIn(mesh::one_stage_schedule_names()),
                                          testing::Values(transfer::Strategy::kSendRecv, transfer::Strategy::kLocalAllgather,
                                                          transfer::Strategy::kBroadcast, transfer::Strategy::kWeft)),
                         [](const auto& test) {
                           std::string name = std::get<0>(test.param).name + "_" + std::get<1>(test.param) + "_" +
                                              std::string(transfer::to_string(std::get<2>(test.param)));
                           for (char& letter : name) letter = std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
                           return name;
                         });

}  // namespace
}  // namespace weft::test

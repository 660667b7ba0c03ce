// Tests that each layout gives the losses of one device, and that two runs give equal bits.

#include <gtest/gtest.h>

#include <cmath>

#include "mesh/plan/plan_memory.h"
#include "tests/training/checkpoint_blocks.h"
#include "tests/training/layouts/gpt_on_layouts.h"

namespace weft::test {
namespace {

constexpr int kLayoutSteps = 6;
constexpr int kLayoutMicrobatches = 3;

struct LayoutCase {
  std::string name;
  std::vector<LayoutMesh> meshes;
};

const LayoutMesh kCube{"3d", {{"i", 2}, {"j", 2}, {"l", 2}}};

std::vector<LayoutCase> layout_cases() {
  using mesh::GatherFrequency;
  const auto cube = [](GatherFrequency gather) {
    LayoutMesh mesh = kCube;
    mesh.gather = gather;
    return mesh;
  };
  return {
      {"tensor", {{"1d", {{"tensor", 2}}}}},
      {"tensor_and_data", {{"1d", {{"data", 2}, {"t", 2}}}}},
      {"tensor_sequence", {{"1d-sequence", {{"tensor", 2}}}}},
      {"square", {{"2d", {{"row", 2}, {"column", 2}}}}},
      {"square_used", {{"2d", {{"r", 2}, {"c", 2}}, GatherFrequency::kUse}}},
      {"squares", {{"2.5d", {{"d", 2}, {"r", 2}, {"c", 2}}}}},
      {"cube", {kCube}},
      {"cube_once_a_step", {cube(GatherFrequency::kStep)}},
      {"cube_for_each_use", {cube(GatherFrequency::kUse)}},
      {"flat_cube", {{"3d", {{"i", 1}, {"j", 2}, {"l", 2}}}}},
      {"cube_and_data", {{"3d", {{"data", 2}, {"i", 1}, {"j", 2}, {"l", 2}}, {}, true}}},
      {"sharded_data", {{"fsdp", {{"data", 4}}}}},
      {"sharded_data_once_a_step", {{"fsdp", {{"data", 4}}, GatherFrequency::kStep}}},
      {"cube_then_tensor", {kCube, {"1d", {{"tensor", 2}}}}},
      {"rules_then_cube", {{"", {{"data", 1}}}, kCube}},
      {"square_then_sharded_data", {{"2d", {{"r", 2}, {"c", 2}}}, {"fsdp", {{"data", 2}}}}},
  };
}

std::vector<mesh::StepResult> train(const std::vector<LayoutMesh>& meshes, apps::GptShape shape,
                                    const std::string& schedule, int steps,
                                    const transfer::LoopbackOptions& options = {}) {
  const mesh::TrainingPlan plan = plan_on(meshes, shape, kLayoutMicrobatches, schedule);
  RandomBatches batches({shape.batch, shape.vocabulary, 11});
  mesh::InProcessTraining training(plan, batches, 7, options);
  std::vector<mesh::StepResult> results;
  for (int step = 0; step < steps; ++step) results.push_back(training.run(train_step(step)));
  return results;
}

std::vector<mesh::StepResult> on_one_device(const apps::GptShape& shape, int steps) {
  return train({{"", {{"data", 1}}}}, shape, "gpipe", steps);
}

void expect_near(const std::vector<mesh::StepResult>& results,
                 const std::vector<mesh::StepResult>& expected, double tolerance) {
  ASSERT_EQ(results.size(), expected.size());
  for (std::size_t step = 0; step < results.size(); ++step) {
    EXPECT_NEAR(results[step].loss, expected[step].loss, tolerance * std::abs(expected[step].loss))
        << "step " << step;
    EXPECT_NEAR(results[step].grad_norm, expected[step].grad_norm,
                20 * tolerance * std::abs(expected[step].grad_norm))
        << "step " << step;
  }
}

class LayoutMaster : public testing::TestWithParam<std::tuple<LayoutCase, std::string>> {};

TEST_P(LayoutMaster, LossesEqualThoseOfOneDeviceInF32) {
  static const auto expected = on_one_device(gpt_shape(2), kLayoutSteps);
  const auto& [c, schedule] = GetParam();
  ASSERT_LT(expected.back().loss, expected.front().loss - 0.01);
  expect_near(train(c.meshes, gpt_shape(2), schedule, kLayoutSteps), expected, 1e-5);
}

TEST_P(LayoutMaster, TwoRunsInBf16HaveTheSameBitsAndAreNearOneDevice) {
  apps::GptShape shape = gpt_shape(2);
  shape.precision = DType::kBF16;
  static const auto expected = on_one_device(shape, kLayoutSteps);
  const auto& [c, schedule] = GetParam();
  transfer::LoopbackOptions shuffled;
  shuffled.shuffle_seed = 3;
  const auto results = train(c.meshes, shape, schedule, kLayoutSteps);
  const auto again = train(c.meshes, shape, schedule, kLayoutSteps, shuffled);
  for (std::size_t step = 0; step < results.size(); ++step) {
    EXPECT_NEAR(results[step].loss, expected[step].loss, 5e-3 * expected[step].loss);
    EXPECT_EQ(results[step].loss, again[step].loss) << "step " << step;
    EXPECT_EQ(results[step].grad_norm, again[step].grad_norm) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LayoutMaster,
                         testing::Combine(testing::ValuesIn(layout_cases()),
                                          testing::Values("1f1b", "zb-h1")),
                         [](const auto& test) {
                           std::string schedule = std::get<1>(test.param);
                           std::ranges::replace(schedule, '-', '_');
                           return std::get<0>(test.param).name + "_" + schedule;
                         });

TEST(LargeCubes, TrainAsOneDevice) {
  for (const int q : {3, 4}) {
    SCOPED_TRACE(q);
    const apps::GptShape shape = gpt_shape(q, 1);
    const LayoutMesh cube{"3d", {{"i", q}, {"j", q}, {"l", q}}};
    expect_near(train({cube}, shape, "1f1b", 3), on_one_device(shape, 3), 1e-5);
  }
}

/// Vocabulary of 37, which is not divisible by any number of devices.
class PaddedVocabularies : public testing::TestWithParam<bool> {
 protected:
  static apps::GptShape shape() {
    apps::GptShape shape = gpt_shape(2);
    shape.vocabulary = 37;
    shape.tied_embeddings = GetParam();
    return shape;
  }
};

TEST_P(PaddedVocabularies, TrainAsOneDevice) {
  const auto expected = on_one_device(shape(), kLayoutSteps);
  const LayoutMesh alone{"", {{"data", 1}}}, line{"1d", {{"tensor", 8}}},
      square{"2d", {{"r", 2}, {"c", 2}}};
  apps::GptShape of_eight_heads = shape();
  of_eight_heads.heads = 8;
  for (const std::vector<LayoutMesh>& meshes : std::vector<std::vector<LayoutMesh>>{
           {kCube}, {square}, {alone, kCube}, {kCube, alone}, {square, {"1d", {{"t", 2}}}}}) {
    SCOPED_TRACE(meshes.front().layout + " " + meshes.back().layout);
    expect_near(train(meshes, shape(), "1f1b", kLayoutSteps), expected, 1e-5);
  }
  expect_near(train({line}, of_eight_heads, "1f1b", kLayoutSteps),
              on_one_device(of_eight_heads, kLayoutSteps), 1e-5);
}

TEST_P(PaddedVocabularies, AreStoredWithoutPadding) {
  RandomBatches batches({shape().batch, shape().vocabulary, 11});
  // Small enough that tables are sent in slices.
  const mesh::PlanConditions conditions{.checkpoint_buffer = 1000};
  const mesh::TrainingPlan plan =
      plan_on({kCube}, shape(), kLayoutMicrobatches, "1f1b", {}, conditions);
  mesh::InProcessTraining training(plan, batches, 7);
  const mesh::TrainingPlan alone = plan_on({{"", {{"data", 1}}}}, shape(), kLayoutMicrobatches);
  mesh::InProcessTraining one(alone, batches, 7);
  EXPECT_EQ(gather(training), gather(one));
  for (int step = 0; step < 2; ++step) training.run(train_step(step));
  const Blocks blocks = gather(training);
  EXPECT_EQ(blocks.at(mesh::optimizer_blocks("embedding").front()).size(), 37 * 16u);
  scatter(one, blocks);
  EXPECT_EQ(gather(one), blocks);
  mesh::InProcessTraining again(plan, batches, 8);
  scatter(again, blocks);
  EXPECT_EQ(gather(again), blocks);
  const double expected = training.run(train_step(2)).loss;
  EXPECT_EQ(again.run(train_step(2)).loss, expected);
  EXPECT_NEAR(one.run(train_step(2)).loss, expected, 1e-5 * expected);
}

INSTANTIATE_TEST_SUITE_P(Embeddings, PaddedVocabularies, testing::Bool(), [](const auto& test) {
  return test.param ? std::string("tied") : std::string("untied");
});

TEST(LayoutCheckpoints, FromACubeGoOnElsewhere) {
  const apps::GptShape shape = gpt_shape(2);
  RandomBatches batches({shape.batch, shape.vocabulary, 11});
  const auto losses = [](mesh::InProcessTraining& training, int from, int to) {
    std::vector<double> result;
    for (int step = from; step < to; ++step) result.push_back(training.run(train_step(step)).loss);
    return result;
  };
  const mesh::TrainingPlan plan = plan_on({kCube}, shape, kLayoutMicrobatches);
  mesh::InProcessTraining whole(plan, batches, 7);
  losses(whole, 0, 2);
  const Blocks blocks = gather(whole);
  const auto expected = losses(whole, 2, 5);
  for (const LayoutMesh& other :
       {LayoutMesh{"", {{"data", 1}}}, LayoutMesh{"1d", {{"tensor", 2}}}, kCube}) {
    const mesh::TrainingPlan other_plan = plan_on({other}, shape, kLayoutMicrobatches);
    mesh::InProcessTraining resumed(other_plan, batches, 8);
    scatter(resumed, blocks);
    EXPECT_EQ(gather(resumed), blocks);
    const auto continued = losses(resumed, 2, 5);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(continued[i], expected[i], 1e-5 * expected[i]) << other.layout << " step " << i;
  }
}

}  // namespace
}  // namespace weft::test

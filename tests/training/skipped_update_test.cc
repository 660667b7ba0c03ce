// Tests that steps with non-finite gradients change nothing on any layout, and that all devices
// decide alike.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "core/cpu/cpu_device.h"
#include "core/evaluate/one_device_trainer.h"
#include "mesh/runtime/in_process_training.h"
#include "tests/support/small_u_transformer.h"
#include "tests/training/checkpoint_blocks.h"
#include "tests/training/layouts.h"
#include "tests/training/random_pictures.h"

namespace weft::test {
namespace {

constexpr std::uint64_t kGoodSteps = 3;

/// Sets one pixel in the second microbatch of one step.
class SpoiltPictures final : public mesh::BatchSource {
 public:
  SpoiltPictures(std::uint64_t step, float pixel)
      : pictures_(kSmallUTransformer.batch, 11), step_(step), pixel_(pixel) {}

  void read(std::string_view input, mesh::Split split, std::uint64_t step, int microbatch,
            int microbatches, const Region& region, std::span<std::byte> out) override {
    pictures_.read(input, split, step, microbatch, microbatches, region, out);
    if (input == "pixels" && step == step_ && microbatch == 1 && region[0].begin == 0)
      std::memcpy(out.data(), &pixel_, sizeof pixel_);
  }

 private:
  RandomPictures pictures_;
  const std::uint64_t step_;
  const float pixel_;
};

mesh::ModelGraphs picture_graphs(DType precision) {
  const double pixels = kMicrobatches * kSmallUTransformer.batch * kSmallUTransformer.height *
                        kSmallUTransformer.width;
  apps::UTransformerShape shape = kSmallUTransformer;
  shape.precision = precision;
  const apps::UTransformerGraph model = apps::u_transformer_graph(shape, 1 / pixels);
  return {differentiate(model.graph, model.loss), model.graph, model.loss};
}

struct Spoilt {
  std::string name;
  Case layout;
  DType precision = DType::kF32;
  float pixel = 0;
};

class SkippedUpdate : public testing::TestWithParam<Spoilt> {};

TEST_P(SkippedUpdate, LeavesValuesAndMomentsAndWorkingCopiesAsTheyWere) {
  const Spoilt& c = GetParam();
  mesh::ParallelConfig layout =
      layout_of(c.layout, "eager-1f1b", transfer::ReshardAlgorithm::kWeft);
  layout.sharding.axes.push_back({"inner", {"tensor"}});
  const mesh::TrainingPlan plan =
      mesh::make_training_plan(layout, picture_graphs(c.precision), places_of(c.layout));
  SpoiltPictures spoilt(kGoodSteps, c.pixel);
  RandomPictures clean(kSmallUTransformer.batch, 11);
  mesh::InProcessTraining training(plan, spoilt, 7), undisturbed(plan, clean, 7);
  for (std::uint64_t step = 0; step < kGoodSteps; ++step)
    EXPECT_EQ(training.run(train_step(step)).loss, undisturbed.run(train_step(step)).loss);

  const Blocks before = gather(training);
  const auto reports = training.run_on_devices(train_step(kGoodSteps));
  for (const mesh::StepReport& report : reports) {
    EXPECT_FALSE(std::isfinite(report.grad_norm));
    EXPECT_EQ(report.first_nonfinite_parameter, reports.front().first_nonfinite_parameter);
  }
  ASSERT_TRUE(reports.front().first_nonfinite_parameter);
  const mesh::StepResult result = mesh::combine(reports);
  EXPECT_FALSE(std::isfinite(result.grad_norm)) << "not 0, which would look like convergence";
  EXPECT_EQ(gather(training), before);

  // If the update had changed a working copy, losses would differ now.
  for (std::uint64_t step = kGoodSteps + 1; step < kGoodSteps + 3; ++step)
    EXPECT_EQ(training.run(train_step(step)).loss, undisturbed.run(train_step(step)).loss)
        << "step " << step;
}

std::vector<Spoilt> spoilt() {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  const Case one{"one", {{1, 1}}, {5}}, two{"two", {{1, 2}, {2, 1}}, {3, 2}},
      three{"three", {{2, 1}, {1, 2}, {2, 2}}, {2, 1, 2}};
  return {{"one_device", one, DType::kF32, kNaN},
          {"two_meshes", two, DType::kF32, kInfinity},
          {"three_meshes", three, DType::kF32, kNaN},
          {"one_device_bf16", one, DType::kBF16, kInfinity},
          {"two_meshes_bf16", two, DType::kBF16, kNaN},
          {"overflow", two, DType::kF32, 3e38f}};
}
INSTANTIATE_TEST_SUITE_P(All, SkippedUpdate, testing::ValuesIn(spoilt()),
                         [](const auto& test) { return test.param.name; });

/// The reference skips the same steps and then equals the meshes bit for bit.
TEST(SkippedUpdateOnOneDevice, TheTrainerDoesAsTheMeshesDo) {
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    const Case one{"one", {{1, 1}, {1, 1}}, {3, 2}};
    const mesh::ModelGraphs model = picture_graphs(precision);
    const mesh::TrainingPlan plan = mesh::make_training_plan(
        layout_of(one, "1f1b", transfer::ReshardAlgorithm::kWeft), model, places_of(one));
    SpoiltPictures pictures(kGoodSteps, std::numeric_limits<float>::infinity());
    mesh::InProcessTraining meshes(plan, pictures, 7);
    CpuDevice device;
    OneDeviceTrainer trainer(device, model.train, 7);
    for (std::uint64_t step = 0; step < kGoodSteps + 3; ++step) {
      const auto feed = [&](int microbatch, Evaluation& evaluation) {
        for (const Input& input : model.train.graph.inputs()) {
          const Value& value = model.train.graph.value(input.value);
          std::vector<std::byte> bytes(value.type.bytes());
          pictures.read(value.name, mesh::Split::kTrain, step, microbatch, kMicrobatches,
                        Region::whole(value.type.shape), bytes);
          evaluation.write(input.value, bytes);
        }
      };
      const mesh::OptimizerStep rates = train_step(step).optimizer;
      const AdamW optimizer{
          rates.learning_rate, rates.beta1, rates.beta2, rates.epsilon, rates.weight_decay, 1, 1};
      const TrainingReport report = trainer.step(kMicrobatches, feed, optimizer, rates.clip_norm);
      const mesh::StepResult result = meshes.run(train_step(step));
      EXPECT_EQ(report.first_nonfinite_parameter.has_value(), step == kGoodSteps);
      EXPECT_EQ(report.first_nonfinite_parameter.has_value(),
                result.first_nonfinite_parameter.has_value());
      if (step == kGoodSteps) {
        EXPECT_EQ(*report.first_nonfinite_parameter, *result.first_nonfinite_parameter);
        continue;
      }
      EXPECT_EQ(report.loss, result.loss) << "step " << step;
      EXPECT_EQ(report.gradient_norm, result.grad_norm) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace weft::test

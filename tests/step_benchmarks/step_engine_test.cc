#include "tests/bench/training_step/step_engine.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "core/base/error.h"
#include "core/cpu/cpu_device.h"
#include "tests/support/detached_device.h"
#include "tests/support/thrown_error.h"

namespace weft::test {
namespace {

constexpr int kSteps = 5;

std::vector<double> losses_of(const std::string& engine, const StepModel& model, Device& device) {
  const auto made = make_step_engine(engine, model, device);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step)
    losses.push_back(made->step(step_inputs(model, kStepSeed, step)));
  return losses;
}

class StepEngines : public testing::TestWithParam<std::tuple<std::string, DType>> {};

/// All engines have one order of sums, so that losses are equal bit for bit.
TEST_P(StepEngines, LossesAreEqual) {
  const auto& [name, precision] = GetParam();
  const StepModel model = make_step_model(name, 0, precision);
  CpuDevice cpu;
  const std::vector<double> expected = losses_of("evaluate", model, cpu);
  EXPECT_LT(expected.front(), model.largest_loss);
  EXPECT_NE(expected.back(), expected.front()) << "the model does not train";
  EXPECT_EQ(losses_of("runtime", model, cpu), expected);
  DetachedDevice asynchronous({.shuffle_seed = 5});
  EXPECT_EQ(losses_of("evaluate", model, asynchronous), expected);
  EXPECT_EQ(losses_of("runtime", model, asynchronous), expected);
}

INSTANTIATE_TEST_SUITE_P(All, StepEngines,
                         testing::Combine(testing::Values("tiny", "u-tiny"),
                                          testing::Values(DType::kF32, DType::kBF16)),
                         [](const auto& test) {
                           return (std::get<0>(test.param) == "tiny" ? "tiny_" : "u_tiny_") +
                                  std::string(to_string(std::get<1>(test.param)));
                         });

TEST(StepEngine, CountsTheOptimizersMemory) {
  const StepModel model = make_step_model("tiny", 0, DType::kF32);
  CpuDevice cpu;
  for (const std::string& engine : step_engine_names()) {
    const StepMemory memory = make_step_engine(engine, model, cpu)->memory();
    // Value, gradient and two moments.
    EXPECT_GE(memory.persistent, 16u * model.graph.num_parameter_elements()) << engine;
    EXPECT_GT(memory.temporary, 0u) << engine;
  }
}

TEST(StepEngine, RefusesUnknownNames) {
  CpuDevice cpu;
  EXPECT_THAT([&] { make_step_engine("jit", make_step_model("tiny", 0, DType::kF32), cpu); },
              throws_error(ErrorCode::kInvalidArgument,
                           testing::Eq("there is no engine 'jit'; there are evaluate, runtime")));
}

}  // namespace
}  // namespace weft::test

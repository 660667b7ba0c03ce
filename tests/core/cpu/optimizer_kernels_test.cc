#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/cpu/cpu_kernels.h"
#include "core/tensor/bfloat16.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

std::vector<float> random_values(std::size_t size, std::uint64_t seed) {
  PhiloxStream random(seed);
  std::vector<float> values(size);
  for (float& value : values) value = 2 * uniform_float(static_cast<std::uint32_t>(random())) - 1;
  return values;
}

class OptimizerKernels : public ::testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > detect_instruction_set())
      GTEST_SKIP() << "this CPU has no " << to_string(GetParam());
  }
};

TEST_P(OptimizerKernels, ThreeAdamWStepsEqualTheFormulaInDouble) {
  constexpr std::size_t kSize = 101;
  CpuKernels kernels(GetParam());
  std::vector<float> parameters = random_values(kSize, 1), first(kSize, 0.0f), second(kSize, 0.0f);
  std::vector<double> p(parameters.begin(), parameters.end()), m(kSize, 0.0), v(kSize, 0.0);
  AdamW step{.learning_rate = 0.01,
             .beta1 = 0.9,
             .beta2 = 0.95,
             .epsilon = 1e-8,
             .weight_decay = 0.1,
             .gradient_scale = 0.5};
  for (step.step = 1; step.step <= 3; ++step.step) {
    const std::vector<float> gradients = random_values(kSize, 10 + step.step);
    kernels.adamw(step, {gradients, parameters, first, second});
    for (std::size_t i = 0; i < kSize; ++i) {
      const double g = step.gradient_scale * gradients[i];
      m[i] = step.beta1 * m[i] + (1 - step.beta1) * g;
      v[i] = step.beta2 * v[i] + (1 - step.beta2) * g * g;
      const double mean = m[i] / (1 - std::pow(step.beta1, step.step));
      const double square = v[i] / (1 - std::pow(step.beta2, step.step));
      p[i] -= step.learning_rate *
              (mean / (std::sqrt(square) + step.epsilon) + step.weight_decay * p[i]);
      ASSERT_NEAR(parameters[i], p[i], 2e-6) << "element " << i << " step " << step.step;
    }
  }
}

TEST_P(OptimizerKernels, AnElementsUpdateDoesNotDependOnWhereTheShardBegins) {
  constexpr std::size_t kSize = 67;
  CpuKernels kernels(GetParam());
  const std::vector<float> gradients = random_values(kSize, 2);
  std::vector<float> whole = random_values(kSize, 3), parts = whole;
  std::vector<float> m1(kSize, 0.1f), v1(kSize, 0.1f), m2 = m1, v2 = v1;
  const AdamW step{.weight_decay = 0.1};
  kernels.adamw(step, {gradients, whole, m1, v1});
  std::size_t begin = 0;
  for (const std::size_t count : {1, 20, 46}) {
    const auto part = [&](auto& values) { return std::span(values).subspan(begin, count); };
    kernels.adamw(step, {part(gradients), part(parts), part(m2), part(v2)});
    begin += count;
  }
  EXPECT_EQ(whole, parts);
}

TEST_P(OptimizerKernels, TheWorkingCopyIsTheValueRounded) {
  constexpr std::size_t kSize = 33;
  CpuKernels kernels(GetParam());
  const std::vector<float> gradients = random_values(kSize, 5);
  std::vector<float> values = random_values(kSize, 6), first(kSize), second(kSize);
  std::vector<BFloat16> working(kSize);
  kernels.adamw({}, {.gradient = gradients,
                     .value = values,
                     .first_moment = first,
                     .second_moment = second,
                     .working = {{DType::kBF16, {kSize}},
                                 std::as_writable_bytes(std::span(working)).data()}});
  for (std::size_t i = 0; i < kSize; ++i) {
    EXPECT_EQ(working[i], BFloat16(values[i]));
    EXPECT_NEAR(static_cast<float>(working[i]), values[i], std::abs(values[i]) / 256);
  }
}

TEST_P(OptimizerKernels, ParametersWithoutDecayDoNotDecay) {
  CpuKernels kernels(GetParam());
  const std::vector<float> zeros(8, 0.0f);
  std::vector<float> values(8, 1.0f), first(8), second(8);
  const AdamW step{.learning_rate = 0.5, .weight_decay = 0.5};
  kernels.adamw(step, {zeros, values, first, second, false});
  EXPECT_EQ(values, std::vector<float>(8, 1.0f));
  kernels.adamw(step, {zeros, values, first, second});
  EXPECT_EQ(values, std::vector<float>(8, 0.75f));
}

TEST_P(OptimizerKernels, SumOfSquaresAddsUpInDouble) {
  CpuKernels kernels(GetParam());
  for (const std::size_t size : {0, 1, 7, 64, 1000003}) {
    const std::vector<float> values = random_values(size, 4);
    double expected = 0;
    for (const double value : values) expected += value * value;
    EXPECT_NEAR(kernels.sum_of_squares(values), expected, 1e-12 * expected) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(, OptimizerKernels,
                         ::testing::Values(InstructionSet::kBaseline, InstructionSet::kAvx2,
                                           InstructionSet::kAvx512),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST(ClipFactor, LimitsTheNormAndNothingElse) {
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(4.0, 1.0), 0.25);
  EXPECT_EQ(clip_factor(4.0, 0.0), 1.0);  // 0: no clipping
  EXPECT_DEATH(clip_factor(std::numeric_limits<double>::quiet_NaN(), 1.0),
               "norm of the gradients is nan");
}

TEST(CpuKernels, RefusesWrongOutputTypesAndIdsOutsideTheTable) {
  CpuKernels kernels(detect_instruction_set());
  std::vector<float> table(6), out(4);
  std::vector<std::int32_t> ids{1, 3};
  const auto run = [&](const Shape& output) {
    const std::vector<ConstTensorRef> inputs{
        {{DType::kF32, {3, 2}}, reinterpret_cast<std::byte*>(table.data())},
        {{DType::kI32, {2}}, reinterpret_cast<std::byte*>(ids.data())}};
    const std::vector<TensorRef> outputs{
        {{DType::kF32, output}, reinterpret_cast<std::byte*>(out.data())}};
    return test::error_message(ErrorCode::kInvalidArgument, [&] {
      kernels.run({OpKind::kEmbedding, {}}, inputs, outputs, {});
    });
  };
  EXPECT_EQ(run({2, 2}), "embedding: the id 3 at position 1 is outside the table of 3 rows");
  EXPECT_EQ(run({4}), "output 0 of embedding is f32[2,2], but f32[4] was given");
}

}  // namespace
}  // namespace weft

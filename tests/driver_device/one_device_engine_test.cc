#include "tests/support/one_device_engine.h"

#include <gtest/gtest.h>

#include "apps/models/gpt_graph.h"
#include "core/autodiff/differentiate.h"
#include "core/base/philox.h"
#include "core/cpu/cpu_device.h"
#include "tests/driver_device/kinds.h"
#include "tests/support/whole_state.h"

namespace weft::apps {
namespace {

constexpr int kMicrobatches = 2;

GptGraph small_gpt(DType precision) {
  return gpt_graph({.layers = 1,
                    .width = 16,
                    .heads = 2,
                    .sequence = 8,
                    .batch = 2,
                    .vocabulary = 16,
                    .precision = precision},
                   1.0 / (8 * 2 * kMicrobatches));
}

test::OneDeviceEngine engine_on(Device& device, const Clock& clock, const GptGraph& gpt) {
  const auto feed = [gpt](bool validation, std::int64_t step, int microbatch,
                          Evaluation& evaluation) {
    PhiloxStream random(step * kMicrobatches + microbatch, validation ? 1 : 0);
    std::vector<std::int32_t> tokens(16), targets(16);
    for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random.below(16));
    for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = (tokens[i] + 5) % 16;
    evaluation.write(gpt.tokens, tokens);
    evaluation.write(gpt.targets, targets);
  };
  return {device, clock, differentiate(gpt.graph, gpt.loss), kMicrobatches, 1, feed};
}

mesh::StepResult step_of(test::OneDeviceEngine& engine, std::uint64_t step) {
  mesh::StepRequest request;
  request.step = step;
  request.optimizer.learning_rate = 1e-2;
  request.optimizer.clip_norm = 1.0;
  return engine.run(request);
}

double validate(test::OneDeviceEngine& engine) {
  mesh::StepRequest request;
  request.step = 1;
  request.split = mesh::Split::kValidation;
  return engine.run(request).loss;
}

class EngineOnOneDevice : public test::EveryDevice {
 protected:
  void expect_same(double found, double expected) const {
    if (is_exact()) EXPECT_EQ(found, expected);
    else EXPECT_NEAR(found, expected, 2e-2 * expected);
  }
};

TEST_P(EngineOnOneDevice, TrainsValidatesAndGoesOnFromItsState) {
  const SteadyClock clock;
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    const GptGraph gpt = small_gpt(precision);
    CpuDevice cpu;
    test::OneDeviceEngine expected = engine_on(cpu, clock, gpt),
                          engine = engine_on(*device_, clock, gpt);
    for (std::uint64_t step = 1; step <= 4; ++step) {
      const mesh::StepResult on_cpu = step_of(expected, step), outcome = step_of(engine, step);
      expect_same(outcome.loss, on_cpu.loss);
      expect_same(outcome.grad_norm, on_cpu.grad_norm);
    }
    expect_same(validate(engine), validate(expected));
    const std::vector<ParameterState> state = test::whole_state(engine);
    if (is_exact()) {
      EXPECT_EQ(state, test::whole_state(expected));
    }
    test::OneDeviceEngine resumed = engine_on(*device_, clock, gpt);
    test::restore_whole(resumed, state, 4);
    EXPECT_EQ(validate(resumed), validate(engine));
    EXPECT_EQ(step_of(resumed, 5).loss, step_of(engine, 5).loss);
    EXPECT_EQ(test::whole_state(resumed), test::whole_state(engine));
  }
}

INSTANTIATE_TEST_SUITE_P(On, EngineOnOneDevice, testing::ValuesIn(test::device_kinds()),
                         test::name_of);

}  // namespace
}  // namespace weft::apps

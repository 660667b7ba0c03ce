// Tests the value and gradient of every op that has a gradient. CPU kernels run autodiff's graph,
// and a double-precision reference gives values and central finite differences. Sizes are odd; each
// instruction set of this machine is tested.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "core/autodiff/differentiate.h"
#include "core/base/philox.h"
#include "core/cpu/cpu_device.h"
#include "core/evaluate/evaluation.h"
#include "core/ops/graph_builder.h"
#include "core/ops/op_definition.h"
#include "core/tensor/bfloat16.h"
#include "tests/support/op_cases/op_cases.h"

namespace weft {
namespace {

using test::Numbers;

/// Small model. `build` returns a scalar loss, or logits to which a loss is added.
struct Case {
  std::string name;
  std::function<ValueId(GraphBuilder&)> build;
  std::int64_t ids_below = 0;
};

ValueId parameter(GraphBuilder& b, const std::string& name, Shape shape) {
  const std::vector<std::string> axes(shape.size(), "any");
  return b.parameter(name, std::move(shape), normal(0.7), axes);
}

ValueId input(GraphBuilder& b, const std::string& name, DType type, const Shape& shape) {
  return b.input(name, {type, shape}, std::vector<std::string>(shape.size(), "any"));
}

/// Appends the case's op. Its real inputs are parameters.
ValueId append(GraphBuilder& b, const test::OpCase& c) {
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const auto& [shape, holds] = c.inputs[i];
    const std::string name = "input" + std::to_string(i);
    inputs.push_back(holds == test::Holds::kReal  ? parameter(b, name, shape)
                     : holds == test::Holds::kF32 ? input(b, name, DType::kF32, shape)
                                                  : input(b, name, DType::kI32, shape));
  }
  return b.append(c.op, inputs);
}

std::vector<Case> cases() {
  // Models of several ops.
  std::vector<Case> all{
      // Each product is fused with the ops that follow, forward and backward: see
      // core/ops/fusion.h.
      {"linear_gelu_linear_add",
       [](GraphBuilder& b) {
         const ValueId x = parameter(b, "x", {3, 7, 19});
         const ValueId h = b.linear(x, parameter(b, "w1", {19, 29}), parameter(b, "b1", {29}));
         return b.add(x,
                      b.linear(b.gelu(h), parameter(b, "w2", {29, 19}), parameter(b, "b2", {19})));
       }},
      {"self_attention_of_pixels",
       [](GraphBuilder& b) {
         const ValueId x = parameter(b, "x", {1, 5, 7, 8});
         return b.cross_attention(x, x, x, 4);
       }},
      {"value_used_twice",
       [](GraphBuilder& b) {
         const ValueId x = parameter(b, "x", {4, 12}), w = parameter(b, "w", {12, 12});
         const ValueId y = b.linear(x, w);
         return b.add(b.gelu(y), b.linear(y, w));
       }},
  };
  for (const test::OpCase& c : test::op_cases().cases) {
    if (definition(c.op.kind).differentiate == nullptr) continue;
    all.push_back({to_string(c), [c](GraphBuilder& b) { return append(b, c); }, c.ids_below});
  }
  return all;
}

/// Case with random inputs after one evaluation.
struct Fixture {
  Fixture(const Case& c, InstructionSet set, DType precision = DType::kF32) : device({1, set}) {
    GraphBuilder b(precision);
    const ValueId result = c.build(b);
    const Shape shape = b.type(result).shape;
    const ValueId loss = shape.empty() ? result : add_loss(b, result);
    forward = std::move(b).finish();
    training = differentiate(forward, loss);
    std::vector<ValueId> results{loss}, gradients;
    for (const Gradient& gradient : training.gradients) gradients.push_back(gradient.gradient);
    results.insert(results.end(), gradients.begin(), gradients.end());
    evaluation = std::make_unique<Evaluation>(device, training.graph, results);
    evaluation->fill_parameters(5);
    PhiloxStream random(11);
    for (const Input& input : forward.inputs()) {
      if (forward.value(input.value).type.dtype == DType::kF32) {
        for (float& number : evaluation->data<float>(input.value))
          number = uniform_float(static_cast<std::uint32_t>(random()));
        const auto span = evaluation->data<float>(input.value);
        values[input.value] = Numbers(span.begin(), span.end());
        continue;
      }
      const std::uint64_t bound = input.value == targets ? shape.back() : c.ids_below;
      for (std::int32_t& id : evaluation->data<std::int32_t>(input.value))
        id = static_cast<std::int32_t>(random.below(bound));
      const auto span = evaluation->data<std::int32_t>(input.value);
      values[input.value] = Numbers(span.begin(), span.end());
    }
    for (const Parameter& p : forward.parameters()) {
      const TensorRef tensor = evaluation->tensor(p.value);
      Numbers& numbers = values[p.value];
      if (precision == DType::kBF16) {
        for (const BFloat16 value : tensor.as<BFloat16>())
          numbers.push_back(static_cast<float>(value));
      } else {
        numbers.assign(tensor.as<float>().begin(), tensor.as<float>().end());
      }
    }
    evaluation->run();
  }

  ValueId add_loss(GraphBuilder& b, ValueId logits) {
    Shape shape = b.type(logits).shape;
    shape.pop_back();
    targets = input(b, "targets", DType::kI32, shape);
    return b.cross_entropy(logits, *targets, 0.37);
  }

  /// Computes the loss of `values` with the reference implementations.
  double reference_loss() const {
    std::map<ValueId, Numbers> computed = values;
    for (const Node& node : forward.nodes()) {
      test::ReferenceRun run{node.op, {}, {}};
      for (const ValueId input : node.inputs) {
        run.inputs.push_back(&computed.at(input));
        run.shapes.push_back(forward.value(input).type.shape);
      }
      computed[node.outputs[0]] = references.at(node.op.kind)(run);
    }
    return computed.at(training.loss)[0];
  }

  const std::map<OpKind, test::Reference> references = test::op_cases().references;
  CpuDevice device;
  std::optional<ValueId> targets;  ///< Targets of the loss that add_loss() adds.
  Graph forward;
  TrainingGraph training;
  std::unique_ptr<Evaluation> evaluation;
  std::map<ValueId, Numbers> values;
};

class GradientTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > detect_instruction_set())
      GTEST_SKIP() << "this CPU has no " << to_string(GetParam());
  }
};

TEST_P(GradientTest, LossEqualsTheReference) {
  for (const Case& c : cases()) {
    Fixture f(c, GetParam());
    EXPECT_NEAR(f.evaluation->data<float>(f.training.loss)[0], f.reference_loss(),
                1e-5 * std::abs(f.reference_loss()))
        << c.name;
  }
}

TEST_P(GradientTest, GradientsEqualFiniteDifferencesOfTheReference) {
  for (const Case& c : cases()) {
    Fixture f(c, GetParam());
    for (const Gradient& gradient : f.training.gradients) {
      const auto computed = f.evaluation->data<float>(gradient.gradient);
      double largest = 0;
      for (const float g : computed) largest = std::max(largest, std::abs(static_cast<double>(g)));
      Numbers& parameter = f.values[gradient.parameter];
      // Checks about 40 elements of each parameter, evenly spaced.
      const std::size_t stride = 1 + parameter.size() / 40;
      for (std::size_t i = 0; i < parameter.size(); i += stride) {
        constexpr double kStep = 1e-4;
        const double value = parameter[i];
        parameter[i] = value + kStep;
        const double above = f.reference_loss();
        parameter[i] = value - kStep;
        const double below = f.reference_loss();
        parameter[i] = value;
        ASSERT_NEAR(computed[i], (above - below) / (2 * kStep), 2e-5 * largest + 1e-7)
            << c.name << ": element " << i << " of " << f.forward.value(gradient.parameter).name;
      }
    }
  }
}

/// Compares bf16 with the f32 graph on the same parameters. With cancellation, a rounding error
/// (2^-9) of large intermediate values is not small beside the result, so errors are measured by
/// the norm.
TEST_P(GradientTest, GradientsInBf16AreNearThoseInF32) {
  for (const Case& c : cases()) {
    Fixture bf16(c, GetParam(), DType::kBF16), f32(c, GetParam());
    for (const Parameter& p : f32.forward.parameters()) {
      const Numbers& rounded = bf16.values[p.value];
      f32.evaluation->set_parameter(p.value, std::vector<float>(rounded.begin(), rounded.end()));
    }
    f32.evaluation->run();
    const double expected_loss = f32.evaluation->data<float>(f32.training.loss)[0];
    EXPECT_NEAR(bf16.evaluation->data<float>(bf16.training.loss)[0], expected_loss,
                0.01 * std::abs(expected_loss))
        << c.name;
    ASSERT_EQ(bf16.training.gradients.size(), f32.training.gradients.size());
    for (std::size_t i = 0; i < f32.training.gradients.size(); ++i) {
      const auto expected = f32.evaluation->data<float>(f32.training.gradients[i].gradient);
      const auto computed = bf16.evaluation->data<float>(bf16.training.gradients[i].gradient);
      double norm = 0, error = 0;
      for (std::size_t e = 0; e < expected.size(); ++e) {
        norm += std::pow(expected[e], 2);
        error += std::pow(computed[e] - expected[e], 2);
      }
      EXPECT_LT(std::sqrt(error), 0.02 * std::sqrt(norm)) << c.name << " parameter " << i;
    }
  }
}

TEST_P(GradientTest, AccumulatingTwiceDoublesAndIsDeterministic) {
  for (const Case& c : cases()) {
    Fixture f(c, GetParam());
    std::vector<ValueId> gradients;
    for (const Gradient& gradient : f.training.gradients) gradients.push_back(gradient.gradient);
    if (std::ranges::any_of(f.training.graph.nodes(), [&](const Node& node) {
          return std::ranges::any_of(
              node.inputs, [&](ValueId v) { return std::ranges::count(gradients, v) > 0; });
        })) {
      continue;  // gradient of a parameter is used for another one
    }
    std::vector<std::vector<float>> runs;
    for (int repetition = 0; repetition < 2; ++repetition) {
      Evaluation evaluation(f.device, f.training.graph, {}, gradients);
      evaluation.fill_parameters(5);
      for (const Input& input : f.forward.inputs()) {  // all have 4 bytes per element
        std::ranges::copy(f.evaluation->data<std::int32_t>(input.value),
                          evaluation.data<std::int32_t>(input.value).begin());
      }
      evaluation.run();
      evaluation.run(OutputMode::kAccumulate);
      runs.emplace_back();
      for (const ValueId gradient : gradients) {
        const auto once = f.evaluation->data<float>(gradient),
                   twice = evaluation.data<float>(gradient);
        for (std::size_t i = 0; i < once.size(); ++i) {
          ASSERT_NEAR(twice[i], 2 * once[i], 1e-5 * std::abs(once[i]) + 1e-5)
              << c.name << ": element " << i;
        }
        runs.back().insert(runs.back().end(), twice.begin(), twice.end());
      }
    }
    EXPECT_EQ(runs[0], runs[1]) << c.name;
  }
}

INSTANTIATE_TEST_SUITE_P(, GradientTest,
                         ::testing::Values(InstructionSet::kBaseline, InstructionSet::kAvx2,
                                           InstructionSet::kAvx512),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace weft

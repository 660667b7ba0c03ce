// Every op's value and gradient, as computed by the CPU kernels from what autodiff emits, against
// the double-precision reference and its central finite differences. Odd sizes, every instruction
// set of this machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "core/autodiff/differentiate.h"
#include "core/base/philox.h"
#include "core/cpu/cpu_device.h"
#include "core/evaluate/evaluation.h"
#include "core/ops/graph_builder.h"
#include "core/tensor/bfloat16.h"
#include "tests/support/reference_ops.h"

namespace weft {
namespace {

using test::Numbers;

enum class Loss : std::uint8_t { kCrossEntropy, kWeightedCrossEntropy, kSquaredError };

/// A small model: the op between parameters and a loss.
struct Case {
  std::string name;
  // the value that goes into the loss; its last dimension are the logits
  std::function<ValueId(GraphBuilder&)> build;
  Loss loss = Loss::kCrossEntropy;
};

ValueId parameter(GraphBuilder& b, const std::string& name, Shape shape) {
  const std::vector<std::string> axes(shape.size(), "any");
  return b.parameter(name, std::move(shape), normal(0.7), axes);
}

ValueId ids(GraphBuilder& b, const Shape& shape) {
  return b.input("ids", {DType::kI32, shape}, std::vector<std::string>(shape.size(), "any"));
}

std::vector<Case> cases() {
  return {
      {"add",
       [](GraphBuilder& b) {
         return b.add(parameter(b, "a", {3, 5, 19}), parameter(b, "b", {3, 5, 19}));
       }},
      {"add_suffix",
       [](GraphBuilder& b) {
         return b.add(parameter(b, "a", {11, 5, 19}), parameter(b, "b", {5, 19}));
       }},
      {"linear",
       [](GraphBuilder& b) {
         return b.linear(parameter(b, "x", {3, 7, 33}), parameter(b, "w", {33, 21}));
       }},
      {"linear_bias",
       [](GraphBuilder& b) {
         return b.linear(parameter(b, "x", {3, 7, 33}), parameter(b, "w", {33, 21}),
                         parameter(b, "bias", {21}));
       }},
      // Each product with what follows it is one op, forward and backward: see core/graph.
      {"linear_gelu_linear_add",
       [](GraphBuilder& b) {
         const ValueId x = parameter(b, "x", {3, 7, 19});
         const ValueId h = b.linear(x, parameter(b, "w1", {19, 29}), parameter(b, "b1", {29}));
         return b.add(x,
                      b.linear(b.gelu(h), parameter(b, "w2", {29, 19}), parameter(b, "b2", {19})));
       }},
      {"linear_packed",
       [](GraphBuilder& b) {
         return b.linear(parameter(b, "x", {2, 5, 9}), parameter(b, "w", {9, 3, 7}),
                         parameter(b, "bias", {3, 7}));
       }},
      {"gelu",
       [](GraphBuilder& b) {
         return b.gelu(parameter(b, "x", {5, 37}));
       }},
      {"layer_norm",
       [](GraphBuilder& b) {
         return b.layer_norm(parameter(b, "x", {3, 3, 37}), parameter(b, "gamma", {37}),
                             parameter(b, "beta", {37}));
       }},
      {"layer_norm_narrow",
       [](GraphBuilder& b) {
         return b.layer_norm(parameter(b, "x", {5, 3}), parameter(b, "gamma", {3}),
                             parameter(b, "beta", {3}));
       }},
      {"attention",
       [](GraphBuilder& b) {
         return b.attention(parameter(b, "qkv", {2, 13, 3, 10}), 5);
       }},
      {"attention_in_blocks",
       [](GraphBuilder& b) {
         return b.attention(parameter(b, "qkv", {1, 131, 3, 4}), 4);
       }},
      {"embedding",
       [](GraphBuilder& b) {
         return b.embedding(parameter(b, "table", {11, 23}), ids(b, {3, 5}));
       }},
      {"cross_entropy",
       [](GraphBuilder& b) {
         return parameter(b, "logits", {3, 2, 71});
       }},
      {"weighted_cross_entropy",
       [](GraphBuilder& b) {
         return parameter(b, "logits", {3, 5, 10});
       },
       Loss::kWeightedCrossEntropy},
      {"squared_error",
       [](GraphBuilder& b) {
         return parameter(b, "x", {3, 5, 11});
       },
       Loss::kSquaredError},
      {"silu",
       [](GraphBuilder& b) {
         return b.silu(parameter(b, "x", {5, 37}));
       }},
      {"sigmoid",
       [](GraphBuilder& b) {
         return b.sigmoid(parameter(b, "x", {5, 37}));
       }},
      {"multiply",
       [](GraphBuilder& b) {
         return b.multiply(parameter(b, "a", {5, 37}), parameter(b, "b", {5, 37}));
       }},
      {"convolution",
       [](GraphBuilder& b) {
         return b.convolution(parameter(b, "x", {2, 7, 5, 6}), parameter(b, "w", {3, 3, 6, 11}),
                              std::nullopt, 1, 1);
       }},
      {"convolution_bias_odd_channels",
       [](GraphBuilder& b) {
         return b.convolution(parameter(b, "x", {2, 6, 9, 1}), parameter(b, "w", {3, 3, 1, 17}),
                              parameter(b, "bias", {17}), 1, 1);
       }},
      {"convolution_stride_2",
       [](GraphBuilder& b) {
         return b.convolution(parameter(b, "x", {2, 7, 8, 16}), parameter(b, "w", {3, 3, 16, 32}),
                              parameter(b, "bias", {32}), 2, 1);
       }},
      {"convolution_stride_2_leaves_pixels_over",
       [](GraphBuilder& b) {
         return b.convolution(parameter(b, "x", {1, 7, 9, 5}), parameter(b, "w", {2, 2, 5, 3}),
                              std::nullopt, 2, 0);
       }},
      {"convolution_1x1",
       [](GraphBuilder& b) {
         return b.convolution(parameter(b, "x", {2, 5, 3, 13}), parameter(b, "w", {1, 1, 13, 10}),
                              parameter(b, "bias", {10}), 1, 0);
       }},
      {"convolution_5x3",
       [](GraphBuilder& b) {
         return b.convolution(parameter(b, "x", {1, 9, 9, 4}), parameter(b, "w", {5, 3, 4, 8}),
                              std::nullopt, 1, 1);
       }},
      {"group_norm",
       [](GraphBuilder& b) {
         return b.group_norm(parameter(b, "x", {2, 5, 3, 12}), parameter(b, "gamma", {12}),
                             parameter(b, "beta", {12}), 3);
       }},
      {"group_norm_many_positions",
       [](GraphBuilder& b) {
         return b.group_norm(parameter(b, "x", {2, 301, 17}), parameter(b, "gamma", {17}),
                             parameter(b, "beta", {17}), 17);
       }},
      {"upsample",
       [](GraphBuilder& b) {
         return b.upsample(parameter(b, "x", {2, 3, 5, 7}), 2);
       }},
      {"concat",
       [](GraphBuilder& b) {
         return b.concat(parameter(b, "a", {2, 3, 5, 7}), parameter(b, "b", {2, 3, 5, 19}));
       }},
      {"add_channels",
       [](GraphBuilder& b) {
         return b.add_channels(parameter(b, "x", {2, 3, 5, 19}), parameter(b, "t", {2, 19}));
       }},
      {"cross_attention",
       [](GraphBuilder& b) {
         return b.cross_attention(parameter(b, "q", {2, 3, 5, 10}), parameter(b, "k", {2, 13, 10}),
                                  parameter(b, "v", {2, 13, 10}), 5);
       }},
      {"cross_attention_many_queries",
       [](GraphBuilder& b) {
         return b.cross_attention(parameter(b, "q", {1, 401, 4}), parameter(b, "k", {1, 3, 4}),
                                  parameter(b, "v", {1, 3, 4}), 4);
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
}

/// A case with its inputs filled in and one evaluation done.
struct Fixture {
  Fixture(const Case& c, InstructionSet set, DType precision = DType::kF32) : device({1, set}) {
    GraphBuilder b(precision);
    const ValueId logits = c.build(b);
    const Shape shape = b.graph().value(logits).type.shape;
    const ValueId loss = add_loss(b, c.loss, logits);
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
      const std::uint64_t bound =
          input.value == targets ? static_cast<std::uint64_t>(shape.back()) : 11;
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

  ValueId add_loss(GraphBuilder& b, Loss loss, ValueId x) {
    Shape shape = b.graph().value(x).type.shape;
    std::vector<std::string> axes(shape.size(), "any");
    if (loss == Loss::kSquaredError)
      return b.squared_error(x, b.input("target", {DType::kF32, shape}, axes), 0.37);
    shape.pop_back();
    axes.pop_back();
    targets = b.input("targets", {DType::kI32, shape}, axes);
    if (loss == Loss::kCrossEntropy) return b.cross_entropy(x, targets, 0.37);
    return b.cross_entropy(x, targets, 0.37, b.input("weights", {DType::kF32, shape}, axes));
  }

  double reference_loss() const {
    return test::reference_evaluate(forward, values).at(training.loss)[0];
  }

  CpuDevice device;
  ValueId targets;
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
      // At most about 40 elements of each parameter, spread over it.
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

/// The same in bf16, against the f32 graph on the same parameters. Where values cancel, an error of
/// one rounding (2^-9) of large intermediate values is not small beside the result: so it is
/// measured by the norm.
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
      continue;  // gradient of one parameter is used for another's
    }
    std::vector<std::vector<float>> runs;
    for (int repetition = 0; repetition < 2; ++repetition) {
      Evaluation evaluation(f.device, f.training.graph, {}, gradients);
      evaluation.fill_parameters(5);
      for (const Input& input : f.forward.inputs()) {  // all of 4 bytes an element
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

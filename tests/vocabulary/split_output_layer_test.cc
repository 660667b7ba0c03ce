// Tests an output layer in slices, as split_graph() makes it, against the whole layer. The input
// gradient follows the statistics ("Vocab-1") or is prepared before them ("Vocab-2"). Runs in
// double precision with the ops' references, and with CPU kernels on ill-conditioned inputs.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/autodiff/differentiate.h"
#include "core/base/philox.h"
#include "core/cpu/cpu_device.h"
#include "core/evaluate/evaluation.h"
#include "core/ops/graph_builder.h"
#include "mesh/layouts/split_graph.h"
#include "tests/support/op_cases/op_cases.h"

namespace weft::test {
namespace {

constexpr std::int64_t kBatch = 3, kSequence = 2, kWidth = 5;

struct Layer {
  std::int64_t vocabulary = 7;
  bool tied = false;
  bool weighted = false;
  DType precision = DType::kF32;
};

/// Builds the layer. x and W are parameters 0 and 1, so that both have gradients.
TrainingGraph output_layer(const Layer& layer) {
  GraphBuilder b(layer.precision);
  const ValueId targets =
      b.input("targets", {DType::kI32, {kBatch, kSequence}}, {"batch", "sequence"});
  std::optional<ValueId> weights;
  if (layer.weighted)
    weights = b.input("weights", {DType::kF32, {kBatch, kSequence}}, {"batch", "sequence"});
  const ValueId x =
      b.parameter("x", {kBatch, kSequence, kWidth}, normal(1), {"batch", "sequence", "embed"});
  const ValueId logits =
      layer.tied
          ? b.linear_transposed(
                x, b.parameter("table", {layer.vocabulary, kWidth}, normal(1), {"vocab", "embed"}))
          : b.linear(
                x, b.parameter("head", {kWidth, layer.vocabulary}, normal(1), {"embed", "vocab"}));
  return differentiate(b.graph(), b.cross_entropy(logits, targets, 0.25, weights));
}

TrainingGraph in_slices(const TrainingGraph& model, std::int64_t slices, bool early) {
  mesh::FeatureSplits splits{1, slices, slices};
  splits.early_input_grad = early;
  return mesh::split_graph(model, {splits});
}

/// Parameters and inputs without padding.
struct Given {
  Numbers x, weight;  ///< W is [width, vocabulary] in every layer.
  Numbers targets, weights;
};

/// Makes random multiples of 1/8 in [-size, size]. For small sizes, f32 products are exact.
Given random_numbers(const Layer& layer, double size, std::uint64_t seed) {
  PhiloxStream random(seed);
  const auto draw = [&](double most) {
    return std::round(8 * most * (2.0 * uniform_float(static_cast<std::uint32_t>(random())) - 1)) /
           8;
  };
  Given given;
  for (std::int64_t i = 0; i < kBatch * kSequence * kWidth; ++i) given.x.push_back(draw(size));
  for (std::int64_t i = 0; i < kWidth * layer.vocabulary; ++i) given.weight.push_back(draw(size));
  for (std::int64_t i = 0; i < kBatch * kSequence; ++i) {
    // Targets include the first and the last id of the vocabulary.
    given.targets.push_back(
        static_cast<double>(i == 0   ? 0
                            : i == 1 ? layer.vocabulary - 1
                                     : static_cast<std::int64_t>(random.below(layer.vocabulary))));
    given.weights.push_back(draw(2));
  }
  return given;
}

/// Returns the content of an input or a parameter. Padding is large and must not matter.
Numbers content_of(const Graph& graph, ValueId id, const Layer& layer, const Given& given) {
  const Value& value = graph.value(id);
  if (value.name == "targets") return given.targets;
  if (value.name == "weights") return given.weights;
  if (value.name == "x") return given.x;
  Numbers content(static_cast<std::size_t>(value.type.elements()), 1e20);
  for (std::int64_t w = 0; w < kWidth; ++w) {
    for (std::int64_t v = 0; v < layer.vocabulary; ++v)
      content[layer.tied ? v * kWidth + w : w * value.type.shape[1] + v] =
          given.weight[w * layer.vocabulary + v];
  }
  return content;
}

struct Results {
  double loss = 0;
  Numbers x_grad, weight_grad;  ///< weight_grad is [width, vocabulary].
};

/// Reads the results of a graph with `read`. Expects zero gradients of padding.
template <typename Read>
Results results_of(const TrainingGraph& model, const Layer& layer, const Read& read) {
  Results results{read(model.loss)[0], read(model.gradients[0].gradient), {}};
  const ValueId id = model.gradients[1].gradient;
  const Numbers grad = read(id);
  const std::int64_t columns = model.graph.value(id).type.shape[layer.tied ? 0 : 1];
  for (std::int64_t w = 0; w < kWidth; ++w) {
    for (std::int64_t v = 0; v < columns; ++v) {
      const double number = grad[layer.tied ? v * kWidth + w : w * columns + v];
      if (v < layer.vocabulary) results.weight_grad.push_back(number);
      else EXPECT_EQ(number, 0) << "padding";
    }
  }
  return results;
}

Results in_double(const TrainingGraph& model, const Layer& layer, const Given& given) {
  static const OpCases cases = op_cases();
  const Graph& graph = model.graph;
  std::map<ValueId, Numbers> computed;
  for (std::size_t i = 0; i < graph.values().size(); ++i)
    if (!graph.values()[i].producer)
      computed[ValueId(i)] = content_of(graph, ValueId(i), layer, given);
  for (const Node& node : graph.nodes()) {
    ReferenceRun run{node.op, {}, {}};
    for (const ValueId input : node.inputs) {
      run.inputs.push_back(&computed.at(input));
      run.shapes.push_back(graph.value(input).type.shape);
    }
    computed[node.outputs[0]] = cases.references.at(node.op.kind)(run);
  }
  return results_of(model, layer, [&](ValueId id) { return computed.at(id); });
}

Results by_kernels(const TrainingGraph& model, const Layer& layer, const Given& given) {
  CpuDevice device;
  Evaluation evaluation(device, model.graph,
                        {model.loss, model.gradients[0].gradient, model.gradients[1].gradient});
  for (const Input& input : model.graph.inputs()) {
    const Numbers content = content_of(model.graph, input.value, layer, given);
    if (model.graph.value(input.value).type.dtype == DType::kI32) {
      evaluation.write(input.value, std::vector<std::int32_t>(content.begin(), content.end()));
    } else {
      evaluation.write(input.value, std::vector<float>(content.begin(), content.end()));
    }
  }
  for (const Parameter& parameter : model.graph.parameters()) {
    const Numbers content = content_of(model.graph, parameter.value, layer, given);
    evaluation.set_parameter(parameter.value, std::vector<float>(content.begin(), content.end()));
  }
  evaluation.run();
  return results_of(model, layer, [&](ValueId id) {
    const std::vector<float> found = evaluation.read<float>(id);
    return Numbers(found.begin(), found.end());
  });
}

void expect_near(const Results& actual, const Results& expected, double tolerance) {
  const auto near = [&](double is, double should, const char* what) {
    ASSERT_TRUE(std::isfinite(is)) << what;
    EXPECT_NEAR(is, should, tolerance * (1 + std::abs(should))) << what;
  };
  near(actual.loss, expected.loss, "loss");
  ASSERT_EQ(actual.x_grad.size(), expected.x_grad.size());
  for (std::size_t i = 0; i < expected.x_grad.size(); ++i)
    near(actual.x_grad[i], expected.x_grad[i], "gradient of x");
  ASSERT_EQ(actual.weight_grad.size(), expected.weight_grad.size());
  for (std::size_t i = 0; i < expected.weight_grad.size(); ++i)
    near(actual.weight_grad[i], expected.weight_grad[i], "gradient of W");
}

/// Calls check(layer, slices, early) for tied and untied layers, with and without weights. Slices
/// have no padding (24 ids), some padding (7 and 5 ids in 8 slices), or only padding (5 ids in 8
/// slices).
template <typename Check>
void for_all_layers(const Check& check) {
  for (const std::int64_t vocabulary : {5, 7, 24}) {
    for (const bool tied : {false, true}) {
      for (const bool weighted : {false, true}) {
        for (const std::int64_t slices : {3, 8}) {
          for (const bool early : {false, true}) {
            SCOPED_TRACE(testing::Message()
                         << vocabulary << " in " << slices << (tied ? ", tied" : "")
                         << (weighted ? ", weighted" : "") << (early ? ", early" : ""));
            check(Layer{vocabulary, tied, weighted}, slices, early);
          }
        }
      }
    }
  }
}

TEST(SplitOutputLayer, IsTheWholeOneInDoublePrecision) {
  for_all_layers([](const Layer& layer, std::int64_t slices, bool early) {
    const TrainingGraph whole = output_layer(layer);
    const Given given = random_numbers(layer, 2, 1);
    expect_near(in_double(in_slices(whole, slices, early), layer, given),
                in_double(whole, layer, given), 1e-12);
  });
}

TEST(SplitOutputLayer, KernelsGiveTheWholeOneWithLogitsUpTo1e4) {
  for (const double size : {1.0, 50.0}) {
    for_all_layers([&](const Layer& layer, std::int64_t slices, bool early) {
      const TrainingGraph whole = output_layer(layer);
      const Given given = random_numbers(layer, size, 2);
      expect_near(by_kernels(in_slices(whole, slices, early), layer, given),
                  by_kernels(whole, layer, given), 2e-6 * std::max(1.0, size / 10));
    });
  }
}

/// Each target is the most likely id, so that the products and the targets' rows almost cancel.
/// Both forms round the same logits and probabilities.
TEST(SplitOutputLayer, IsExactInBf16WhereTargetsAreLikely) {
  for (const bool tied : {false, true}) {
    const Layer layer{24, tied, false, DType::kBF16};
    Given given = random_numbers(layer, 4, 3);
    for (std::int64_t t = 0; t < kBatch * kSequence; ++t) {
      double most = -1e9;
      for (std::int64_t v = 0; v < layer.vocabulary; ++v) {
        double logit = 0;
        for (std::int64_t w = 0; w < kWidth; ++w)
          logit += given.x[t * kWidth + w] * given.weight[w * layer.vocabulary + v];
        if (logit <= most) continue;
        most = logit;
        given.targets[t] = static_cast<double>(v);
      }
    }
    const TrainingGraph whole = output_layer(layer);
    const Results expected = by_kernels(whole, layer, given);
    for (const std::int64_t slices : {3, 8}) {
      const Results actual = by_kernels(in_slices(whole, slices, true), layer, given);
      EXPECT_NEAR(actual.loss, expected.loss, 1e-5);
      for (std::int64_t t = 0; t < kBatch * kSequence; ++t) {
        const auto row = expected.x_grad.begin() + t * kWidth;
        double largest = 0;
        for (std::int64_t w = 0; w < kWidth; ++w) largest = std::max(largest, std::abs(row[w]));
        for (std::int64_t w = 0; w < kWidth; ++w)
          EXPECT_NEAR(actual.x_grad[t * kWidth + w], row[w], 0.01 * largest + 1e-6)
              << t << " " << w;
      }
    }
  }
}

/// The linear of the logits' slices precedes the loss and needs no statistics. The backward only
/// combines; pass W computes the logits' gradient.
TEST(SplitOutputLayer, PreparesTheGradientOfItsInputInForward) {
  std::vector<std::string> nodes;
  const TrainingGraph model = in_slices(output_layer({}), 3, true);
  for (const Node& node : model.graph.nodes())
    nodes.push_back(std::string(to_string(node.pass)) + " " + std::string(to_string(node.op.kind)));
  EXPECT_EQ(nodes, (std::vector<std::string>{
                       "F linear", "F cross_entropy_moments", "F cross_entropy_numerators",
                       "F linear_slice_input_grad", "F target_rows", "F cross_entropy_statistics",
                       "F cross_entropy_of_statistics", "W cross_entropy_apply_grad",
                       "I cross_entropy_combined_input_grad", "W linear_weight_grad"}));
  const ValueId x_grad = model.gradients[0].gradient;
  EXPECT_EQ(model.graph.value(x_grad).gradient_of, model.gradients[0].parameter);
  EXPECT_EQ(model.graph.node(*model.graph.value(x_grad).producer).op.kind,
            OpKind::kCrossEntropyCombinedInputGrad);
}

TEST(SplitOutputLayer, ComputesNoGradientWhereThereIsNoBackward) {
  GraphBuilder b;
  const ValueId targets = b.input("targets", {DType::kI32, {3}}, {"batch"});
  const ValueId x = b.input("x", {DType::kF32, {3, 4}}, {"batch", "embed"});
  const ValueId loss = b.cross_entropy(
      b.linear(x, b.parameter("head", {4, 9}, normal(1), {"embed", "vocab"})), targets, 1);
  const TrainingGraph model = in_slices({b.graph(), loss, {}}, 3, true);
  std::vector<std::string_view> nodes;
  for (const Node& node : model.graph.nodes()) nodes.push_back(to_string(node.op.kind));
  EXPECT_EQ(nodes, (std::vector<std::string_view>{"linear", "cross_entropy_moments",
                                                  "cross_entropy_statistics",
                                                  "cross_entropy_of_statistics"}));
}

}  // namespace
}  // namespace weft::test

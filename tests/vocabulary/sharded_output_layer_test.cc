// Tests an output layer that partition() splits over devices against the unsplit layer, in double
// precision. Compares the loss and all gradients. The input gradient is computed after the
// statistics (Vocab-1) or before them (Vocab-2). Logits go up to 1e4.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/autodiff/differentiate.h"
#include "core/base/indexed_vector.h"
#include "core/base/philox.h"
#include "core/ops/graph_builder.h"
#include "mesh/layouts/layout.h"
#include "mesh/layouts/rules.h"
#include "mesh/layouts/split_graph.h"
#include "tests/vocabulary/sharded_reference.h"

namespace weft::mesh {
namespace {

using test::Numbers;
using test::Values;

/// Parts of an output layer.
struct Layer {
  bool tied = false;  ///< True if the table is a tied [vocab, embed] table, used transposed.
  bool bias = false;
  bool weights = false;  ///< True if each token has a weight.
  std::int64_t vocabulary = 10;
  double magnitude = 1;  ///< Approximate magnitude of the logits.
};

std::string name_of(const Layer& layer) {
  return std::string(layer.tied ? "tied" : "untied") + (layer.bias ? ", bias" : "") +
         (layer.weights ? ", weights" : "") + ", magnitude " + std::to_string(layer.magnitude);
}

constexpr std::int64_t kRows = 4, kColumns = 3, kWidth = 6;

/// Builds the layer. x is a parameter, so that it has a gradient.
TrainingGraph graph_of(const Layer& layer) {
  GraphBuilder b;
  const std::vector<std::string> tokens{"batch", "sequence"};
  const ValueId x = b.parameter("x", {kRows, kColumns, kWidth}, normal(1), {"batch", "", "embed"});
  const ValueId targets = b.input("targets", {DType::kI32, {kRows, kColumns}}, tokens);
  std::optional<ValueId> bias, weights;
  if (layer.bias) bias = b.parameter("bias", {layer.vocabulary}, zeros(), {"vocab"});
  if (layer.weights) weights = b.input("weights", {DType::kF32, {kRows, kColumns}}, tokens);
  const ValueId logits =
      layer.tied
          ? b.linear_transposed(
                x, b.parameter("w", {layer.vocabulary, kWidth}, normal(1), {"vocab", "embed"}))
          : b.linear(x, b.parameter("w", {kWidth, layer.vocabulary}, normal(1), {"embed", "vocab"}),
                     bias);
  const ValueId loss = b.cross_entropy(logits, targets, 0.25, weights);
  return differentiate(b.graph(), loss);
}

/// Makes random inputs and parameters. Targets are spread over the vocabulary.
Values random_values(const Graph& graph, const Layer& layer, std::uint64_t seed) {
  Values values;
  PhiloxStream random(seed);
  for (const Value& value : graph.values()) {
    if (value.producer) continue;
    const ValueId id(&value - graph.values().data());
    for (std::int64_t i = 0; i < value.type.elements(); ++i) {
      const float number = 2 * uniform_float(static_cast<std::uint32_t>(random())) - 1;
      const bool is_id = value.type.dtype == DType::kI32;
      values[id].push_back(is_id                     ? i * 7 % layer.vocabulary
                           : value.name == "x"       ? number * static_cast<float>(layer.magnitude)
                           : value.name == "weights" ? (number + 1) / 2
                                                     : number);
    }
  }
  return values;
}

/// Copies values to the split graph, whose vocabulary may be padded, with zeros as padding.
Values padded(const Graph& split, const Graph& whole, const Values& values) {
  Values result;
  for (std::size_t i = 0, j = 0; i < split.values().size(); ++i) {
    if (split.values()[i].producer) continue;
    while (whole.values()[j].name != split.values()[i].name) ++j;
    const Shape &to = split.values()[i].type.shape, &from = whole.values()[j].type.shape;
    Numbers& numbers = result[ValueId(i)];
    numbers.assign(num_elements(to), 0.0);
    for (std::int64_t e = 0; e < num_elements(from); ++e) {
      const std::int64_t row = e / from.back(), column = e % from.back();
      numbers[row * to.back() + column] = values.at(ValueId(j))[e];
    }
  }
  return result;
}

/// Removes a gradient's padding, which must be zero.
Numbers cut(const Numbers& numbers, const Shape& from, const Shape& to) {
  Numbers result;
  for (std::int64_t e = 0; e < num_elements(from); ++e) {
    const std::int64_t row = e / from.back(), column = e % from.back();
    if (row < num_elements(to) / to.back() && column < to.back()) {
      result.push_back(numbers[e]);
    } else {
      EXPECT_EQ(numbers[e], 0);
    }
  }
  return result;
}

DeviceMesh mesh_of(const std::string& name, std::int64_t ways) {
  std::vector<transfer::DeviceId> devices;
  for (std::int64_t i = 0; i < ways; ++i) devices.emplace_back(i);
  return DeviceMesh(name, {{"vocab", ways}}, devices);
}

IndexedVector<StageId, MeshId> stages_on(const std::vector<int>& meshes) {
  IndexedVector<StageId, MeshId> result;
  for (const int mesh : meshes) result.push_back(MeshId(mesh));
  return result;
}

const ShardingRules kRules{{{"vocab", {"vocab"}}}};

PartitionRequest request_of(const TrainingGraph& model, std::vector<DeviceMesh> meshes,
                            StageCut cut) {
  PartitionRequest request{model.graph,     model.loss,
                           model.gradients, IndexedVector<MeshId, DeviceMesh>(std::move(meshes)),
                           std::move(cut),  {}};
  const auto stages = place_nodes(request.graph, request.cut);
  for (const MeshId mesh : request.meshes.ids())
    request.strategies.push_back(rules_strategy(
        {request.graph, request.meshes[mesh], nodes_on(mesh, stages, request.cut)}, kRules));
  return request;
}

TrainingGraph split(const TrainingGraph& model, std::int64_t ways, bool early) {
  return split_graph(model, std::vector<FeatureSplits>(model.graph.num_blocks(),
                                                       FeatureSplits{1, ways, ways, early}));
}

void expect_equal(const Numbers& actual, const Numbers& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 0;
  for (const double number : expected) largest = std::max(largest, std::abs(number));
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], tolerance * largest) << what << " element " << i;
}

void expect_results(const TrainingGraph& split, const Values& actual, const TrainingGraph& whole,
                    const Values& expected, double tolerance) {
  expect_equal(actual.at(split.loss), expected.at(whole.loss), tolerance, "loss");
  ASSERT_EQ(split.gradients.size(), whole.gradients.size());
  for (std::size_t i = 0; i < whole.gradients.size(); ++i) {
    const ValueId is = split.gradients[i].gradient, was = whole.gradients[i].gradient;
    expect_equal(
        cut(actual.at(is), split.graph.value(is).type.shape, whole.graph.value(was).type.shape),
        expected.at(was), tolerance,
        "gradient of " + whole.graph.value(whole.gradients[i].parameter).name);
  }
}

std::vector<Layer> layers() {
  std::vector<Layer> all;
  for (const double magnitude : {1.0, 1e4})
    for (const bool tied : {false, true})
      for (const bool weights : {false, true})
        all.push_back({tied, !tied && weights, weights, 10, magnitude});
  return all;
}

TEST(ShardedOutputLayer, IsTheUnsplitOneInBothForms) {
  for (const Layer& layer : layers()) {
    const TrainingGraph whole = graph_of(layer);
    const Values values = random_values(whole.graph, layer, 3);
    const Values expected = test::evaluate_in_double(whole.graph, values);
    // The last three of 8 shards contain only padding.
    for (const std::int64_t ways : {1, 3, 8}) {
      for (const bool early : {false, true}) {
        SCOPED_TRACE(name_of(layer) + ", ways " + std::to_string(ways) + (early ? ", early" : ""));
        const TrainingGraph model = split(whole, ways, early);
        const Partition result = partition(
            request_of(model, {mesh_of("all", ways)}, {stages_on({0}), {StageId(0)}, {}}));
        expect_results(
            model,
            test::evaluate_shards_in_double(result, padded(model.graph, whole.graph, values)),
            whole, expected, 1e-12);
      }
    }
  }
}

TEST(ShardedOutputLayer, IsTheUnsplitOneOnNamedLayoutsToo) {
  const LayoutChoice choice{"1d", {}};
  const DeviceMesh mesh("m", {{"tensor", 3}},
                        {transfer::DeviceId(0), transfer::DeviceId(1), transfer::DeviceId(2)});
  const Layer layer{.weights = true};
  const TrainingGraph whole = graph_of(layer);
  FeatureSplits splits = feature_splits(choice, mesh);
  splits.early_input_grad = true;
  const TrainingGraph model = split_graph(whole, {splits});
  PartitionRequest request{model.graph,
                           model.loss,
                           model.gradients,
                           IndexedVector<MeshId, DeviceMesh>(std::vector{mesh}),
                           {stages_on({0}), {StageId(0)}, {}},
                           {}};
  const auto stages = place_nodes(request.graph, request.cut);
  request.strategies.push_back(
      layout_strategy({request.graph, mesh, nodes_on(MeshId(0), stages, request.cut)}, choice));
  const Partition result = partition(request);
  const Values values = random_values(whole.graph, layer, 5);
  expect_results(model,
                 test::evaluate_shards_in_double(result, padded(model.graph, whole.graph, values)),
                 whole, test::evaluate_in_double(whole.graph, values), 1e-12);
  // Values made from a device's slice stay there until they are combined.
  for (const Step& step : result.per_mesh[MeshId(0)].steps) {
    const auto* move = std::get_if<MoveStep>(&step.what);
    if (move == nullptr) continue;
    const ValueId moved = result.per_mesh[MeshId(0)].locals[move->input].value;
    const auto maker = model.graph.value(moved).producer;
    if (!maker) continue;
    const OpKind kind = model.graph.node(*maker).op.kind;
    EXPECT_FALSE(kind == OpKind::kCrossEntropyNumerators || kind == OpKind::kLinearSliceInputGrad ||
                 kind == OpKind::kTargetRows)
        << to_string(kind);
  }
}

}  // namespace
}  // namespace weft::mesh

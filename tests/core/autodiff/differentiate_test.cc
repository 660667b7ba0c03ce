#include "core/autodiff/differentiate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/ops/graph_builder.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// Model in which two bias-free linear layers use the same parameter `w`.
struct Shared {
  Graph graph;
  ValueId loss, w;
};

Shared shared_weight() {
  GraphBuilder b;
  const ValueId ids = b.input("ids", {DType::kI32, {2, 3}}, {"batch", "sequence"});
  const ValueId targets = b.input("targets", {DType::kI32, {2, 3}}, {"batch", "sequence"});
  const ValueId table = b.parameter("table", {8, 8}, normal(0.1), {"vocab", "embed"});
  const ValueId w = b.parameter("w", {8, 8}, normal(0.1), {"embed", "embed"});
  ValueId x = b.embedding(table, ids);
  b.set_block(1);
  x = b.add(x, b.linear(x, w));
  b.set_block(2);
  const ValueId loss = b.cross_entropy(b.linear(x, w), targets, 1.0);
  return {std::move(b).finish(), loss, w};
}

TEST(Differentiate, TwoParametersOfOneNameAreRefused) {
  GraphBuilder b;
  const ValueId ids = b.input("ids", {DType::kI32, {2, 3}}, {"batch", "sequence"});
  const ValueId targets = b.input("targets", {DType::kI32, {2, 3}}, {"batch", "sequence"});
  const ValueId table = b.parameter("w", {8, 8}, normal(0.1), {"vocab", "embed"});
  const ValueId w = b.parameter("w", {8, 8}, normal(0.1), {"embed", "embed"});
  const ValueId loss = b.cross_entropy(b.linear(b.embedding(table, ids), w), targets, 1.0);
  const Graph graph = std::move(b).finish();
  EXPECT_THAT([&] { differentiate(graph, loss); },
              test::throws_error(ErrorCode::kInvalidArgument, "two parameters are named 'w'"));
}

TEST(Differentiate, EveryParameterHasAGradientOfItsType) {
  const Shared model = shared_weight();
  const TrainingGraph training = differentiate(model.graph, model.loss);
  std::set<ValueId> parameters;
  for (std::size_t i = 0; i < training.gradients.size(); ++i) {
    parameters.insert(training.gradients[i].parameter);
    EXPECT_EQ(training.graph.value(training.gradients[i].gradient).type,
              training.graph.value(training.gradients[i].parameter).type);
  }
  EXPECT_EQ(parameters.size(), model.graph.parameters().size());
}

TEST(Differentiate, AParameterThatTwoBlocksUseHasATermFromEach) {
  const Shared model = shared_weight();
  const TrainingGraph training = differentiate(model.graph, model.loss);
  ASSERT_EQ(training.gradients.size(), 3u);
  for (const int term : {1, 2}) {
    const Gradient& gradient = training.gradients[term];
    EXPECT_EQ(gradient.parameter, model.w);
    const Node& node = training.graph.node(*training.graph.value(gradient.gradient).producer);
    EXPECT_EQ(node.op.kind, OpKind::kLinearWeightGrad);
    EXPECT_EQ(node.pass, Pass::kWeightGrad);
    EXPECT_EQ(node.block, term);
  }
}

TEST(Differentiate, SeveralUsesOfAParameterInOneBlockAreAddedThereAsWeightGradient) {
  GraphBuilder b;
  const ValueId targets = b.input("targets", {DType::kI32, {2}}, {"batch"});
  const ValueId x = b.parameter("x", {2, 4}, normal(0.1), {"batch", "embed"});
  b.set_block(1);
  const ValueId w = b.parameter("w", {4, 4}, normal(0.1), {"embed", "embed"});
  const ValueId loss = b.cross_entropy(b.linear(b.linear(x, w), w), targets, 1.0);
  const TrainingGraph training = differentiate(b.graph(), loss);
  ASSERT_EQ(training.gradients.size(), 2u);
  const Node& node =
      training.graph.node(*training.graph.value(training.gradients[1].gradient).producer);
  EXPECT_EQ(node.op.kind, OpKind::kAdd);
  EXPECT_EQ(node.pass, Pass::kWeightGrad);
  EXPECT_EQ(node.block, 1);
}

TEST(Differentiate, AnEmulatedBlockStatesItsTwoGradientsApart) {
  GraphBuilder b;
  const ValueId ids = b.input("ids", {DType::kI32, {2, 3}}, {"batch", "sequence"});
  const ValueId targets = b.input("targets", {DType::kI32, {2}}, {"batch"});
  const ValueId w = b.parameter("w", {10}, zeros(), {"weights"});
  const ValueId v = b.parameter("v", {20}, zeros(), {"weights"});
  const ValueId x = b.emulated_block({ids}, w, {{4}, 1.0, 2.0, 3.0, 0});
  const ValueId skip = b.emulated_block({x}, w, {{6}, 0.0, 0.0, 0.0, 0});
  b.set_block(1);
  const ValueId loss =
      b.cross_entropy(b.emulated_block({x, skip}, v, {{8}, 0.1, 0.2, 0.3, 5}), targets, 1.0);
  const TrainingGraph training = differentiate(b.graph(), loss);
  std::vector<std::string> backward;
  for (const Node& node : training.graph.nodes()) {
    if (node.pass == Pass::kForward || node.op.kind == OpKind::kCrossEntropyGrad) continue;
    std::string text = fmt::format("{} {}", to_string(node.pass), to_string(node.op));
    for (const ValueId output : node.outputs)
      text += " " + to_string(training.graph.value(output).type);
    backward.push_back(text);
  }
  // The first block has no input that needs a gradient.
  EXPECT_THAT(backward,
              ::testing::ElementsAre(
                  "I emulated_input_grad(seconds=0.2,kept=1) f32[2,4] f32[2,6]",
                  "W emulated_weight_grad(seconds=0.3,weights=20) f32[20]",
                  "I emulated_input_grad(seconds=0,kept=0) f32[2,4]",
                  "W emulated_weight_grad(seconds=0,weights=10) f32[10]", "I add f32[2,4]",
                  "W emulated_weight_grad(seconds=3,weights=10) f32[10]", "W add f32[10]"));
}

TEST(Differentiate, SeveralUsesOfAValueAreAddedBlockByBlockThenInItsProducersBlock) {
  GraphBuilder b;
  const ValueId ids = b.input("ids", {DType::kI32, {2}}, {"batch"});
  const ValueId targets = b.input("targets", {DType::kI32, {2}}, {"batch"});
  const ValueId x = b.embedding(b.parameter("table", {8, 4}, normal(0.1), {"vocab", "embed"}), ids);
  b.set_block(1);
  const ValueId y = b.add(x, b.gelu(x));
  b.set_block(2);
  const ValueId loss = b.cross_entropy(b.add(y, b.gelu(x)), targets, 1.0);
  const TrainingGraph training = differentiate(b.graph(), loss);
  std::vector<int> blocks;
  for (const Node& node : training.graph.nodes()) {
    if (node.op.kind == OpKind::kAdd && node.pass == Pass::kInputGrad) blocks.push_back(node.block);
  }
  EXPECT_THAT(blocks, ::testing::ElementsAre(1, 0));
}

TEST(Differentiate, NoInputGradientNeedsAWeightGradient) {
  const Shared model = shared_weight();
  const TrainingGraph training = differentiate(model.graph, model.loss);
  std::set<ValueId> weight_gradients;
  for (const Node& node : training.graph.nodes()) {
    for (const ValueId input : node.inputs) {
      EXPECT_TRUE(node.pass == Pass::kWeightGrad || !weight_gradients.contains(input))
          << to_string(node.op);
    }
    if (node.pass == Pass::kWeightGrad)
      weight_gradients.insert(node.outputs.begin(), node.outputs.end());
  }
}

TEST(Differentiate, InBf16GradientsOfParametersAreF32AndOthersBf16) {
  GraphBuilder b(DType::kBF16);
  const ValueId pixels = b.input("pixels", {DType::kF32, {2, 4}}, {"batch", "embed"});
  const ValueId target = b.input("target", {DType::kF32, {2, 4}}, {"batch", "embed"});
  const ValueId w = b.parameter("w", {4, 4}, normal(0.1), {"embed", "embed"});
  const ValueId whole = b.parameter("whole", {2, 4}, normal(0.1), {"batch", "embed"});
  const ValueId row = b.parameter("row", {4}, normal(0.1), {"embed"});
  ValueId x = b.linear(b.convert(pixels, b.precision()), w, row);
  x = b.add(x, b.gelu(b.linear(x, w)));
  x = b.add(x, whole);  // gradient: the bf16 gradient of x
  EXPECT_EQ(b.convert(x, DType::kBF16), x);
  const ValueId loss = b.squared_error(x, target, 1.0);
  const TrainingGraph training = differentiate(b.graph(), loss);
  for (const Gradient& gradient : training.gradients) {
    const TensorType& type = training.graph.value(gradient.gradient).type;
    EXPECT_EQ(type, (TensorType{DType::kF32, training.graph.value(gradient.parameter).type.shape}));
  }
  int conversions = 0;
  for (const Node& node : training.graph.nodes()) {
    if (node.op.kind == OpKind::kToF32) {
      EXPECT_EQ(node.pass, Pass::kWeightGrad);
      ++conversions;
    }
    if (node.pass == Pass::kInputGrad) {
      EXPECT_EQ(training.graph.value(node.outputs[0]).type.dtype, DType::kBF16);
    }
  }
  EXPECT_EQ(conversions, 1);
  EXPECT_THAT([&] { GraphBuilder{DType::kI32}; },
              test::throws_error(ErrorCode::kInvalidArgument,
                                 "a model's precision is f32 or bf16, not i32"));
}

TEST(Differentiate, ForwardNodesStayAsTheyAre) {
  const Shared model = shared_weight();
  const TrainingGraph training = differentiate(model.graph, model.loss);
  const std::string forward = to_string(model.graph), all = to_string(training.graph);
  EXPECT_EQ(all.substr(0, forward.size()), forward);
}

TEST(Differentiate, RefusesAParameterThatDoesNotMatterAndALossThatIsNone) {
  GraphBuilder b;
  const ValueId targets = b.input("targets", {DType::kI32, {2}}, {"batch"});
  const ValueId w = b.parameter("w", {2, 4}, normal(0.1), {"a", "b"});
  b.parameter("idle", {4}, zeros(), {"b"});
  const ValueId loss = b.cross_entropy(w, targets, 1.0);
  const auto message = [&](ValueId of) {
    return test::error_message(ErrorCode::kInvalidArgument, [&] { differentiate(b.graph(), of); });
  };
  EXPECT_THAT(message(loss), HasSubstr("'idle' does not influence the loss"));
  EXPECT_THAT(message(w), HasSubstr("must be the result of cross_entropy"));
}

}  // namespace
}  // namespace weft

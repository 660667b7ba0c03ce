#include "core/autodiff/differentiate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/base/error.h"
#include "core/ops/graph_builder.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// Embedding and output layer share a table through a bias-free linear of the same parameter used twice.
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

TEST(Differentiate, EveryParameterHasAGradientOfItsType) {
  const Shared model = shared_weight();
  const TrainingGraph training = differentiate(model.graph, model.loss);
  ASSERT_EQ(training.gradients.size(), model.graph.parameters().size());
  for (std::size_t i = 0; i < training.gradients.size(); ++i) {
    EXPECT_EQ(training.gradients[i].parameter, model.graph.parameters()[i].value);
    EXPECT_EQ(training.graph.value(training.gradients[i].gradient).type,
              training.graph.value(training.gradients[i].parameter).type);
  }
}

TEST(Differentiate, SeveralUsesOfAParameterAreAddedInItsFirstBlockAsWeightGradient) {
  const Shared model = shared_weight();
  const TrainingGraph training = differentiate(model.graph, model.loss);
  const ValueId gradient = training.gradients[1].gradient;
  const Node& node = training.graph.node(*training.graph.value(gradient).producer);
  EXPECT_EQ(node.op.kind, OpKind::kAdd);
  EXPECT_EQ(node.pass, Pass::kWeightGrad);
  EXPECT_EQ(node.block, 1);
}

TEST(Differentiate, SeveralUsesOfAValueAreAddedInItsProducersBlockAsInputGradient) {
  const Shared model = shared_weight();
  const TrainingGraph training = differentiate(model.graph, model.loss);
  int sums = 0;
  for (const Node& node : training.graph.nodes()) {
    if (node.op.kind != OpKind::kAdd || node.pass != Pass::kInputGrad) continue;
    ++sums;
    EXPECT_EQ(node.block, 0);  // x = embedding(...) is used by add and by linear
  }
  EXPECT_EQ(sums, 1);
}

TEST(Differentiate, NoInputGradientNeedsAWeightGradient) {
  const Shared model = shared_weight();
  const TrainingGraph training = differentiate(model.graph, model.loss);
  std::set<ValueId> weight_gradients;
  for (const Node& node : training.graph.nodes()) {
    for (const ValueId input : node.inputs) {
      EXPECT_TRUE(node.pass == Pass::kWeightGrad || !weight_gradients.contains(input)) << to_string(node.op);
    }
    if (node.pass == Pass::kWeightGrad) weight_gradients.insert(node.outputs.begin(), node.outputs.end());
  }
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
    try {
      differentiate(b.graph(), of);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("no error");
  };
  EXPECT_THAT(message(loss), HasSubstr("'idle' does not influence the loss"));
  EXPECT_THAT(message(w), HasSubstr("must be the result of cross_entropy"));
}

}  // namespace
}  // namespace weft

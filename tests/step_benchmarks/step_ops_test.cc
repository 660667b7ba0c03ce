#include "tests/bench/op_rates/step_ops.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/autodiff/differentiate.h"
#include "tests/bench/training_step/step_plan.h"

namespace weft::test {
namespace {

std::vector<StepOp> ops_of(const StepModel& model) {
  return ops_of_step(step_plan(model).train.programs.front());
}

std::vector<StepOp> calls_of(const std::vector<StepOp>& ops, StepOp::Call call) {
  std::vector<StepOp> found;
  std::ranges::copy_if(ops, std::back_inserter(found),
                       [&](const StepOp& op) { return op.call == call; });
  return found;
}

/// Fused ops count the operations of both parts.
TEST(StepOps, HaveTheOperationsOfTheTrainingGraph) {
  for (const std::string name : {"tiny", "u-tiny"}) {
    for (const DType precision : {DType::kF32, DType::kBF16}) {
      const StepModel model = make_step_model(name, 0, precision);
      const Graph graph = differentiate(model.graph, model.loss).graph;
      double expected = 0, flops = 0;
      for (const Node& node : graph.nodes()) expected += cost(graph, node).flops;
      for (const StepOp& op : calls_of(ops_of(model), StepOp::Call::kRun))
        flops += op.cost.flops * op.runs;
      EXPECT_NEAR(flops, expected, 1e-6 * expected) << name;
    }
  }
}

TEST(StepOps, CountEqualWorkOnce) {
  const std::vector<StepOp> ops = ops_of(make_step_model("tiny", 0, DType::kBF16));
  const auto attention =
      std::ranges::find(ops, "attention", [](const StepOp& op) { return op.name(); });
  ASSERT_NE(attention, ops.end());
  EXPECT_EQ(attention->runs, 2);  // layers
  EXPECT_EQ(attention->inputs, (std::vector<TensorType>{{DType::kBF16, {2, 32, 3, 64}}}));
  for (auto a = ops.begin(); a != ops.end(); ++a) {
    for (auto b = a + 1; b != ops.end(); ++b) {
      EXPECT_FALSE(a->call == b->call && a->op == b->op && a->inputs == b->inputs &&
                   a->outputs == b->outputs)
          << a->name();
    }
  }
}

TEST(StepOps, NameTheDataThatOpsRead) {
  const std::vector<StepOp> ops = ops_of(make_step_model("tiny", 0, DType::kF32));
  for (const StepOp& op : calls_of(ops, StepOp::Call::kRun)) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const bool tokens = op.name().starts_with("embedding");
      const std::string expected = op.inputs[i].dtype != DType::kI32 ? ""
                                   : tokens                          ? "tokens"
                                                                     : "targets";
      EXPECT_EQ(op.data[i], expected) << op.name() << ", input " << i;
    }
  }
}

TEST(StepOps, IncludeTheOptimizer) {
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    const StepModel model = make_step_model("tiny", 0, precision);
    const double elements = static_cast<double>(model.graph.num_parameter_elements());
    const std::vector<StepOp> ops = ops_of(model);
    const auto adamw = calls_of(ops, StepOp::Call::kAdamW),
               squares = calls_of(ops, StepOp::Call::kSumsOfSquares);
    ASSERT_EQ(adamw.size(), 1u);
    ASSERT_EQ(squares.size(), 1u);
    EXPECT_EQ(squares[0].cost.bytes, 4 * elements);
    if (precision == DType::kF32) {
      EXPECT_EQ(adamw[0].cost.bytes, 28 * elements);
    } else {
      // The bf16 copies too; norms stay f32.
      EXPECT_GT(adamw[0].cost.bytes, 28 * elements);
      EXPECT_LE(adamw[0].cost.bytes, 30 * elements);
    }
  }
}

}  // namespace
}  // namespace weft::test

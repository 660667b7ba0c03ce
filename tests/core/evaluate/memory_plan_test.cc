#include "core/evaluate/memory_plan.h"

#include <gtest/gtest.h>

#include "core/base/philox.h"
#include "core/ops/graph_builder.h"
#include "core/ops/op_definition.h"

namespace weft {
namespace {

std::vector<ListedOp> all_ops(const Graph& graph) {
  const auto numbers = [](const std::vector<ValueId>& values) {
    std::vector<std::uint32_t> result;
    for (const ValueId value : values) result.push_back(value.value());
    return result;
  };
  std::vector<ListedOp> ops;
  for (const Node& node : graph.nodes())
    ops.push_back({&node.op, numbers(node.inputs), numbers(node.outputs)});
  return ops;
}

/// Returns a random chain of element-wise ops with long-range uses.
Graph random_graph(std::uint64_t seed) {
  PhiloxStream random(seed);
  GraphBuilder b;
  std::vector<ValueId> values{b.input("x", {DType::kF32, {64, 64}}, {"a", "b"})};
  const ValueId narrow = b.parameter("w", {64, 16}, normal(1), {"a", "b"});
  for (int i = 0; i < 30; ++i) {
    const ValueId a = values[random.below(values.size())], c = values[random.below(values.size())];
    switch (random.below(3)) {
      case 0: values.push_back(b.gelu(a)); break;
      case 1: values.push_back(b.add(a, c)); break;
      default: b.linear(a, narrow); break;
    }
  }
  return std::move(b).finish();
}

TEST(MemoryPlan, ValuesThatAreNeededTogetherNeverShareBytes) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Graph graph = random_graph(seed);
    std::vector<bool> elsewhere(graph.values().size(), false);
    for (std::size_t v = 0; v < graph.values().size(); ++v)
      elsewhere[v] = !graph.values()[v].producer;
    const MemoryPlan plan = plan_memory(graph, all_ops(graph), elsewhere);
    // Walk the nodes and record which value owns each byte. No input may have been overwritten.
    std::vector<int> owner(plan.size / 64, -1);
    for (const Node& node : graph.nodes()) {
      for (const ValueId input : node.inputs) {
        if (elsewhere[input.value()]) continue;
        const std::size_t at = *plan.offsets[input.value()];
        for (std::size_t byte = at; byte < at + graph.value(input).type.bytes(); byte += 64) {
          ASSERT_EQ(owner[byte / 64], static_cast<int>(input.value())) << "seed " << seed;
        }
      }
      const std::size_t at = *plan.offsets[node.outputs[0].value()];
      const int in_place = definition(node.op.kind).in_place_input;
      for (const ValueId input : node.inputs) {
        const bool may_share = in_place >= 0 && node.inputs[in_place] == input;
        if (!may_share && !elsewhere[input.value()]) {
          ASSERT_NE(*plan.offsets[input.value()], at);
        }
      }
      for (std::size_t byte = at; byte < at + graph.value(node.outputs[0]).type.bytes();
           byte += 64) {
        owner[byte / 64] = node.outputs[0].value();
      }
    }
  }
}

TEST(MemoryPlan, AChainWorksInPlace) {
  GraphBuilder b;
  ValueId x = b.input("x", {DType::kF32, {64, 64}}, {"a", "b"});
  for (int i = 0; i < 10; ++i) x = b.gelu(x);
  const MemoryPlan plan = plan_memory(b.graph(), all_ops(b.graph()),
                                      std::vector<bool>{true, false, false, false, false, false,
                                                        false, false, false, false, false});
  EXPECT_EQ(plan.size, 64u * 64 * sizeof(float));
}

}  // namespace
}  // namespace weft

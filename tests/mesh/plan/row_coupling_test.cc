#include "mesh/plan/internal/row_coupling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ops/graph_builder.h"

namespace weft::mesh {
namespace {

const TensorType kRowsType{DType::kF32, {4, 8}}, kFeatures{DType::kF32, {8}};

TEST(RowCoupling, AModelThatTreatsEachRowAloneHasNone) {
  GraphBuilder b;
  const ValueId x = b.input("x", kRowsType, {"batch", "embed"});
  const ValueId y = b.gelu(b.linear(x, b.parameter("w", {8, 8}, normal(0.1), {"embed", "mlp"})));
  const ValueId targets = b.input("targets", {DType::kI32, {4}}, {"batch"});
  (void)b.cross_entropy(y, targets, 0.25);
  EXPECT_EQ(find_row_coupling(std::move(b).finish()), std::nullopt);
}

TEST(RowCoupling, AStatisticOfTheBatchThatAnOpUsesIsFound) {
  GraphBuilder b;
  const ValueId x = b.input("x", kRowsType, {"batch", "embed"});
  const ValueId y = b.linear(x, b.parameter("w", {8, 8}, normal(0.1), {"embed", "mlp"}));
  Graph graph = std::move(b).finish();
  const NodeId sum = graph.add_node({OpKind::kSumLeading, {{"dimensions", std::int64_t{1}}}}, {y},
                                    {kFeatures}, {"sum"}, 0, Pass::kForward);
  const ValueId statistic = graph.node(sum).outputs.front();
  EXPECT_EQ(find_row_coupling(graph), std::nullopt);
  graph.add_node({OpKind::kGelu, {}}, {statistic}, {kFeatures}, {"scale"}, 0, Pass::kForward);
  EXPECT_THAT(find_row_coupling(graph).value_or(""), testing::HasSubstr("which makes 'scale'"));
}

}  // namespace
}  // namespace weft::mesh

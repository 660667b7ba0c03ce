#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/ops/graph_builder.h"
#include "core/ops/op_definition.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

/// Block with two inputs of 6 rows, [6,4] and [6]. It keeps 7 elements per row.
struct Block {
  Block() {
    const ValueId x = b.input("x", {DType::kF32, {6, 4}}, {"batch", "embed"});
    const ValueId ids = b.input("ids", {DType::kI32, {6}}, {"batch"});
    const ValueId w = b.parameter("w", {10}, zeros(), {"weights"});
    y = b.emulated_block({x, ids}, w, {{3, 5}, 1.0, 2.0, 3.0, 7});
  }
  GraphBuilder b;
  ValueId y;
};

TEST(EmulatedBlock, StatesTheTypesOfWhatItGivesAndKeeps) {
  const Block block;
  EXPECT_EQ(to_string(block.b.graph().value(block.y).type), "f32[6,3,5]");
  const Node& node = block.b.graph().nodes().back();
  ASSERT_EQ(node.outputs.size(), 2u);
  EXPECT_EQ(to_string(block.b.graph().value(node.outputs[1]).type), "f32[6,7]");
  EXPECT_EQ(node.op.real("seconds"), 1.0);
}

TEST(EmulatedBlock, IsOfItsWeightsPrecision) {
  GraphBuilder b(DType::kBF16);
  const ValueId ids = b.input("ids", {DType::kI32, {6}}, {"batch"});
  const ValueId y = b.emulated_block({ids}, b.parameter("w", {10}, zeros(), {"weights"}),
                                     {{3}, 1.0, 2.0, 3.0, 7});
  EXPECT_EQ(to_string(b.type(y)), "bf16[6,3]");
  EXPECT_EQ(to_string(b.type(b.graph().nodes().back().outputs[1])), "bf16[6,7]");
  const std::vector<TensorType> types{b.type(y), {DType::kI32, {6}}};
  const Op weight_grad{OpKind::kEmulatedWeightGrad,
                       {{"seconds", 1.0}, {"weights", std::int64_t{10}}}};
  EXPECT_EQ(to_string(infer_types(weight_grad, types)[0]), "f32[10]");
}

TEST(EmulatedBlock, OnlyRowsMayBeSplit) {
  const Block block;
  EXPECT_EQ(to_string(factor_signature(block.b.graph(), block.b.graph().nodes().back())),
            "(a,B)(a)(C)->(a,D,E)(a,F)");
}

TEST(EmulatedBlock, RefusesInputsOfDifferentRows) {
  GraphBuilder b;
  const ValueId x = b.input("x", {DType::kF32, {6, 4}}, {"batch", "embed"});
  const ValueId other = b.input("other", {DType::kF32, {5, 4}}, {"batch", "embed"});
  const ValueId w = b.parameter("w", {10}, zeros(), {"weights"});
  EXPECT_THAT(
      [&] {
        b.emulated_block({x, other}, w, {{3}, 1.0, 2.0, 3.0, 0});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "all inputs must have the same rows"));
}

}  // namespace
}  // namespace weft

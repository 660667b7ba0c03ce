#include "core/ops/graph_builder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/ops/op_definition.h"
#include "tests/support/thrown_error.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TEST(GraphBuilder, InfersShapesOfPackedQkvAndAttention) {
  GraphBuilder b;
  const ValueId x = b.input("x", {DType::kF32, {2, 5, 8}}, {"batch", "sequence", "embed"});
  const ValueId w = b.parameter("w", {8, 3, 8}, normal(0.02), {"embed", "qkv", "heads"});
  const ValueId qkv = b.linear(x, w);
  EXPECT_EQ(to_string(b.graph().value(qkv).type), "f32[2,5,3,8]");
  EXPECT_EQ(to_string(b.graph().value(b.attention(qkv, 4)).type), "f32[2,5,8]");
}

TEST(GraphBuilder, NamesCarryTheirScopesAndNodesTheirBlock) {
  GraphBuilder b;
  const ValueId x = b.input("x", {DType::kF32, {2, 8}}, {"batch", "embed"});
  b.set_block(3);
  ValueId y;
  {
    const auto outer = b.scope("h3");
    const auto inner = b.scope("mlp");
    y = b.gelu(x);
  }
  EXPECT_EQ(b.graph().value(y).name, "h3.mlp.gelu");
  EXPECT_EQ(b.graph().value(b.gelu(y)).name, "gelu");
  EXPECT_EQ(b.graph().nodes()[0].block, 3);
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidArgument, [&] { b.set_block(2); }),
              HasSubstr("must not decrease"));
}

TEST(GraphBuilder, RefusesShapesThatDoNotFitAndNamesThem) {
  GraphBuilder b;
  const ValueId x = b.input("x", {DType::kF32, {2, 5, 8}}, {"batch", "sequence", "embed"});
  const ValueId w = b.parameter("w", {7, 8}, normal(0.02), {"a", "b"});
  b.set_block(1);
  EXPECT_EQ(test::error_message(ErrorCode::kInvalidArgument, [&] { b.linear(x, w); }),
            "linear(f32[2,5,8], f32[7,8]): x's last dimension must equal w's first (in block 1, of "
            "x, w)");
  {
    const auto layer = b.scope("h1");
    const auto part = b.scope("mlp");
    EXPECT_THAT(test::error_message(ErrorCode::kInvalidArgument, [&] { b.linear(x, w); }),
                HasSubstr("must equal w's first (in h1.mlp, block 1, of x, w)"));
  }
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidArgument, [&] { b.add(x, w); }),
              HasSubstr("add(f32[2,5,8], f32[7,8]): b's shape"));
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidArgument, [&] { b.attention(x, 4); }),
              HasSubstr("[batch, sequence, 3, width]"));
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidArgument, [&] { b.embedding(w, x); }),
              HasSubstr("input 1 must be i32"));
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidArgument, [&] { b.gelu(ValueId(99)); }),
              HasSubstr("%99 is not a value"));
}

TEST(GraphBuilder, MethodsAppendTheirOpWithItsAttributes) {
  GraphBuilder b;
  const auto parameter = [&](Shape shape) {
    const std::vector<std::string> axes(shape.size(), "any");
    const std::string name = "p" + std::to_string(b.graph().parameters().size());
    return b.parameter(name, std::move(shape), ones(), axes);
  };
  const ValueId x = parameter({2, 6, 4, 8}), row = parameter({8}), pixels = parameter({2, 5, 8});
  const ValueId targets = b.input("targets", {DType::kI32, {2, 5}}, {"batch", "sequence"});
  const ValueId weights = b.input("weights", {DType::kF32, {2, 5}}, {"batch", "sequence"});
  const auto op = [&](ValueId value) {
    const Node& node = b.graph().nodes().back();
    EXPECT_EQ(node.outputs[0], value);
    return fmt::format("{} of {}", to_string(node.op), node.inputs.size());
  };
  EXPECT_EQ(op(b.layer_norm(x, row, row, 0.5)), "layer_norm(epsilon=0.5) of 3");
  EXPECT_EQ(op(b.group_norm(x, row, row, 4, 0.5)), "group_norm(group_size=4,epsilon=0.5) of 3");
  EXPECT_EQ(op(b.convolution(x, parameter({3, 3, 8, 8}), row, 2, 1)),
            "convolution(stride=2,padding=1) of 3");
  EXPECT_EQ(op(b.upsample(x, 3)), "upsample(factor=3) of 1");
  EXPECT_EQ(op(b.cross_attention(x, pixels, pixels, 4)), "cross_attention(head_dim=4) of 3");
  EXPECT_EQ(op(b.cross_entropy(pixels, targets, 0.25)), "cross_entropy(scale=0.25) of 2");
  EXPECT_EQ(op(b.cross_entropy(pixels, targets, 0.25, weights)), "cross_entropy(scale=0.25) of 3");
  EXPECT_EQ(op(b.squared_error(pixels, pixels, 0.25)), "squared_error(scale=0.25) of 2");
  EXPECT_EQ(op(b.linear(x, parameter({8, 5}), parameter({5}))), "linear of 3");
  EXPECT_EQ(op(b.linear_transposed(x, parameter({5, 8}))), "linear_input_grad of 2");
  EXPECT_EQ(op(b.add_channels(pixels, parameter({2, 8}))), "add_channels of 2");
  EXPECT_EQ(op(b.silu(x)), "silu of 1");
  EXPECT_EQ(op(b.sigmoid(x)), "sigmoid of 1");
  EXPECT_EQ(op(b.multiply(x, x)), "multiply of 2");
}

TEST(FactorSignature, LinearIsItsEinsum) {
  const std::vector<TensorType> inputs{
      {DType::kF32, {2, 5, 8}}, {DType::kF32, {8, 3, 6}}, {DType::kF32, {3, 6}}};
  const FactorSignature signature = factor_signature({OpKind::kLinear, {}}, inputs);
  EXPECT_EQ(to_string(signature), "(a,b,c+)(c+,d,e)(d,e)->(a,b,d,e)");
  EXPECT_EQ(signature.single_device_inputs, std::vector<int>{2});
  EXPECT_DOUBLE_EQ(cost({OpKind::kLinear, {}}, inputs).flops, 2.0 * 2 * 5 * 8 * 18);
}

TEST(FactorSignature, AttentionSplitsTheWidthOnlyBetweenHeads) {
  const std::vector<TensorType> inputs{{DType::kF32, {2, 5, 3, 12}}};
  const FactorSignature signature =
      factor_signature({OpKind::kAttention, {{"head_dim", std::int64_t{4}}}}, inputs);
  EXPECT_EQ(to_string(signature), "(a,B,C,d)->(a,B,d)(a,d,B)");
  EXPECT_EQ(signature.factors[3].granularity, 4);
}

TEST(GraphBuilder, PicturesConvolveDownAndUp) {
  GraphBuilder b;
  const ValueId x =
      b.input("x", {DType::kF32, {2, 9, 8, 3}}, {"batch", "height", "width", "channels"});
  const ValueId w =
      b.parameter("w", {3, 3, 3, 16}, normal(0.1), {"kernel", "kernel", "channels", "inner"});
  const ValueId down = b.convolution(x, w, std::nullopt, 2, 1);
  EXPECT_EQ(to_string(b.type(down)), "f32[2,5,4,16]");
  EXPECT_EQ(to_string(b.type(b.upsample(down, 2))), "f32[2,10,8,16]");
  EXPECT_EQ(to_string(b.type(b.concat(down, down))), "f32[2,5,4,32]");
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidArgument, [&] { b.concat(x, down); }),
              HasSubstr("agree in all dimensions but the last"));
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidArgument,
                                  [&] { b.convolution(down, w, std::nullopt, 1, 1); }),
              HasSubstr("[height, width, 16, channels]"));
  const ValueId gamma = b.parameter("gamma", {16}, ones(), {"inner"});
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidArgument,
                                  [&] { b.group_norm(down, gamma, gamma, 3); }),
              HasSubstr("16 channels are not a multiple of group_size 3"));
}

TEST(FactorSignature, ConvolutionSumsOverItsInputChannelsAndSplitsNoPicture) {
  const std::vector<TensorType> inputs{
      {DType::kF32, {2, 9, 8, 3}}, {DType::kF32, {3, 3, 3, 16}}, {DType::kF32, {16}}};
  const Op op{OpKind::kConvolution, {{"stride", std::int64_t{2}}, {"padding", std::int64_t{1}}}};
  EXPECT_EQ(to_string(factor_signature(op, inputs)), "(a,B,C,d+)(H,I,d+,e)(e)->(a,F,G,e)");
  EXPECT_DOUBLE_EQ(cost(op, inputs).flops, 2.0 * 2 * 5 * 4 * 16 * 27);
}

}  // namespace
}  // namespace weft

#include "core/ops/fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>

#include "core/ops/op_definition.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

/// List of ops that tests append to.
struct List {
  std::deque<Op> ops;
  std::vector<ListedOp> listed;
  std::map<std::uint32_t, TensorType> types;
  std::set<std::uint32_t> elsewhere;

  List(std::initializer_list<std::pair<std::uint32_t, Shape>> tensors) {
    for (const auto& [tensor, shape] : tensors) types[tensor] = {DType::kF32, shape};
  }
  void add(Op op, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
           std::uint32_t accumulate = 0) {
    ops.push_back(std::move(op));
    std::vector<TensorType> in;
    for (const std::uint32_t input : inputs) in.push_back(types.at(input));
    const std::vector<TensorType> out = infer_types(ops.back(), in);
    for (std::size_t i = 0; i < outputs.size(); ++i) types[outputs[i]] = out[i];
    listed.push_back({&ops.back(), std::move(inputs), std::move(outputs), accumulate});
  }
  void touch(std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs) {
    listed.push_back({nullptr, std::move(inputs), std::move(outputs)});
  }
  std::vector<Fusion> fusions() const {
    std::vector<Fusion> found =
        find_fusions(listed, {[this](std::uint32_t t) -> const TensorType& { return types.at(t); },
                              [this](std::uint32_t t) { return elsewhere.contains(t); }});
    for (const Fusion& fusion : found) {  // each fused op must infer the same output types
      std::vector<TensorType> in, out;
      for (const std::uint32_t input : fusion.inputs) in.push_back(types.at(input));
      for (const std::uint32_t output : fusion.outputs) out.push_back(types.at(output));
      EXPECT_EQ(infer_types(fusion.op, in), out) << to_string(fusion.op);
      EXPECT_EQ(unfused_kind(fusion.op.kind), listed[fusion.last].op->kind);
    }
    return found;
  }
};

enum : std::uint32_t { kX, kW, kBias, kA, kDy, kH, kY, kT, kDw, kDb, kDx };

List forward() {
  return {{kX, {4, 5, 8}}, {kW, {8, 6}}, {kBias, {6}}, {kA, {4, 5, 6}}, {kDy, {4, 5, 6}}};
}
Op op(OpKind kind) { return {kind, {}}; }
Op sum_leading(std::int64_t dimensions) {
  return {OpKind::kSumLeading, {{"dimensions", dimensions}}};
}

TEST(Fusion, GeluKeepsItsInputOnlyForOthers) {
  List list = forward();
  list.add(op(OpKind::kLinear), {kX, kW, kBias}, {kH});
  list.add(op(OpKind::kGelu), {kH}, {kY});
  auto found = list.fusions();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(to_string(found[0].op), "linear_gelu(keep=0)");
  EXPECT_THAT(found[0].removed, ElementsAre(0u));
  EXPECT_EQ(found[0].last, 1u);
  EXPECT_THAT(found[0].inputs, ElementsAre(kX, kW, kBias));
  EXPECT_THAT(found[0].outputs, ElementsAre(kY));

  list.elsewhere.insert(kH);
  found = list.fusions();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(to_string(found[0].op), "linear_gelu(keep=1)");
  EXPECT_THAT(found[0].outputs, ElementsAre(kY, kH));
}

TEST(Fusion, AddTakesAProductThatNothingElseUsesOnEitherSide) {
  for (const bool product_first : {false, true}) {
    List list = forward();
    list.add(op(OpKind::kLinear), {kX, kW, kBias}, {kT});
    list.add(
        op(OpKind::kAdd),
        product_first ? std::vector<std::uint32_t>{kT, kA} : std::vector<std::uint32_t>{kA, kT},
        {kY});
    const auto found = list.fusions();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(to_string(found[0].op), "linear_add");
    EXPECT_THAT(found[0].inputs, ElementsAre(kX, kW, kA, kBias));
    list.elsewhere.insert(kT);
    EXPECT_TRUE(list.fusions().empty());
  }
  List broadcast = forward();
  broadcast.add(op(OpKind::kLinear), {kX, kW}, {kT});
  broadcast.add(op(OpKind::kAdd), {kT, kBias}, {kY});
  EXPECT_TRUE(broadcast.fusions().empty());
  List doubled = forward();
  doubled.add(op(OpKind::kLinear), {kX, kW}, {kT});
  doubled.add(op(OpKind::kAdd), {kT, kT}, {kY});
  EXPECT_TRUE(doubled.fusions().empty());
}

TEST(Fusion, BackwardOfAGeluAndOfABias) {
  List list = forward();
  list.types[kH] = {DType::kF32, {4, 5, 8}};
  list.add(op(OpKind::kLinearInputGrad), {kDy, kW}, {kT});
  list.add(op(OpKind::kLinearWeightGrad), {kX, kDy}, {kDw}, 1);
  list.add(sum_leading(2), {kDy}, {kDb}, 1);
  list.add(op(OpKind::kGeluGrad), {kH, kT}, {kDx});
  const auto found = list.fusions();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(to_string(found[0].op), "linear_weight_grad_sum");
  EXPECT_THAT(found[0].inputs, ElementsAre(kX, kDy));
  EXPECT_THAT(found[0].outputs, ElementsAre(kDw, kDb));
  EXPECT_EQ(found[0].accumulate, 3u);
  EXPECT_EQ(to_string(found[1].op), "linear_input_grad_gelu");
  EXPECT_THAT(found[1].removed, ElementsAre(0u));
  EXPECT_EQ(found[1].last, 3u);
  EXPECT_THAT(found[1].inputs, ElementsAre(kDy, kW, kH));
  EXPECT_THAT(found[1].outputs, ElementsAre(kDx));
}

TEST(Fusion, BothGradientsAreAddedOrNeither) {
  List list = forward();
  list.add(op(OpKind::kLinearWeightGrad), {kX, kDy}, {kDw}, 1);
  list.add(sum_leading(2), {kDy}, {kDb}, 0);
  EXPECT_TRUE(list.fusions().empty());
  List other = forward();
  other.add(op(OpKind::kLinearWeightGrad), {kX, kDy}, {kDw});
  other.add(sum_leading(1), {kDy}, {kDb});
  EXPECT_TRUE(other.fusions().empty());
}

enum : std::uint32_t { kGamma = 20, kDgamma, kDbeta, kTargets, kLoss, kDlogits };

Op layer_norm(OpKind kind, double epsilon = 1e-5) { return {kind, {{"epsilon", epsilon}}}; }
List backward_of_layer_norm(std::uint32_t accumulate = 0) {
  List list{{kX, {4, 5, 8}}, {kGamma, {8}}, {kDy, {4, 5, 8}}, {kA, {4, 5, 8}}};
  list.add(layer_norm(OpKind::kLayerNormInputGrad), {kX, kGamma, kDy}, {kT});
  list.add(layer_norm(OpKind::kLayerNormWeightGrad), {kX, kDy}, {kDgamma, kDbeta}, accumulate);
  return list;
}

TEST(Fusion, GradientsOfALayerNormAndTheSumThatFollows) {
  for (const std::vector<std::uint32_t>& terms : {std::vector{+kA, +kT}, std::vector{+kT, +kA}}) {
    List list = backward_of_layer_norm(3);
    list.add(op(OpKind::kAdd), terms, {kDx});
    const auto found = list.fusions();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(to_string(found[0].op), "layer_norm_grad_add(epsilon=1e-05)");
    EXPECT_THAT(found[0].removed, ElementsAre(0u, 1u));
    EXPECT_EQ(found[0].last, 2u);
    EXPECT_THAT(found[0].inputs, ElementsAre(kX, kGamma, kDy, kA));
    EXPECT_THAT(found[0].outputs, ElementsAre(kDx, kDgamma, kDbeta));
    EXPECT_EQ(found[0].accumulate, 6u) << "dx is written";
  }
}

TEST(Fusion, GradientsOfALayerNormWithoutASumOfTheirOwn) {
  List list = backward_of_layer_norm(3);
  list.add(op(OpKind::kAdd), {kA, kT}, {kDx});
  list.elsewhere.insert(kT);
  for (const bool with_sum : {true, false}) {
    if (!with_sum) list.listed.pop_back();
    const auto found = list.fusions();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(to_string(found[0].op), "layer_norm_grad(epsilon=1e-05)");
    EXPECT_THAT(found[0].removed, ElementsAre(0u));
    EXPECT_EQ(found[0].last, 1u);
    EXPECT_THAT(found[0].inputs, ElementsAre(kX, kGamma, kDy));
    EXPECT_THAT(found[0].outputs, ElementsAre(kT, kDgamma, kDbeta));
    EXPECT_EQ(found[0].accumulate, 6u);
  }
}

/// As in schedules that compute weight gradients in actions of their own.
TEST(Fusion, SumAndInputGradientOfALayerNormWithoutTheWeightGradient) {
  List input_grad = backward_of_layer_norm();
  input_grad.listed.pop_back();
  input_grad.add(op(OpKind::kAdd), {kA, kT}, {kDx});
  const auto found = input_grad.fusions();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(to_string(found[0].op), "layer_norm_input_grad_add(epsilon=1e-05)");
  EXPECT_THAT(found[0].outputs, ElementsAre(kDx));

  // The weight gradient is read before the sum.
  List read = backward_of_layer_norm();
  read.touch({kDgamma}, {});
  read.add(op(OpKind::kAdd), {kA, kT}, {kDx});
  ASSERT_EQ(read.fusions().size(), 1u);
  EXPECT_EQ(to_string(read.fusions()[0].op), "layer_norm_input_grad_add(epsilon=1e-05)");

  List weight_grad = backward_of_layer_norm();
  weight_grad.listed.erase(weight_grad.listed.begin());
  EXPECT_TRUE(weight_grad.fusions().empty());

  List other_epsilon = backward_of_layer_norm();
  other_epsilon.listed.pop_back();
  other_epsilon.add(layer_norm(OpKind::kLayerNormWeightGrad, 1e-6), {kX, kDy}, {kDgamma, kDbeta});
  EXPECT_TRUE(other_epsilon.fusions().empty());
}

TEST(Fusion, CrossEntropyAndItsGradientOfTheSameInputs) {
  const auto loss = [](OpKind kind, double scale) { return Op{kind, {{"scale", scale}}}; };
  for (const double scale : {0.25, 0.5}) {
    List list{{kX, {4, 5, 8}}};
    list.types[kTargets] = {DType::kI32, {4, 5}};
    list.add(loss(OpKind::kCrossEntropy, 0.25), {kX, kTargets}, {kLoss}, 1);
    list.add(loss(OpKind::kCrossEntropyGrad, scale), {kX, kTargets}, {kDlogits});
    const auto found = list.fusions();
    if (scale != 0.25) {
      EXPECT_TRUE(found.empty());
      continue;
    }
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(to_string(found[0].op), "cross_entropy_with_grad(scale=0.25)");
    EXPECT_THAT(found[0].inputs, ElementsAre(kX, kTargets));
    EXPECT_THAT(found[0].outputs, ElementsAre(kDlogits, kLoss));
    EXPECT_EQ(found[0].accumulate, 2u);
    list.listed.insert(list.listed.begin() + 1, ListedOp{nullptr, {kLoss}, {}});
    EXPECT_TRUE(list.fusions().empty()) << "the loss is read before the gradient";
  }
}

TEST(Fusion, NothingBetweenMayTouchWhatTheFirstMakesOrWriteWhatItReads) {
  for (const bool reads : {false, true}) {
    List list = forward();
    list.add(op(OpKind::kLinear), {kX, kW, kBias}, {kH});
    if (reads) {
      list.touch({kH}, {});
    } else {
      list.touch({}, {kX});
    }
    list.add(op(OpKind::kGelu), {kH}, {kY});
    EXPECT_TRUE(list.fusions().empty());
  }
  List list = forward();
  list.add(op(OpKind::kLinear), {kX, kW, kBias}, {kH});
  list.touch({kX, kY}, {kA});
  list.add(op(OpKind::kGelu), {kH}, {kY});
  EXPECT_EQ(list.fusions().size(), 1u);
}

}  // namespace
}  // namespace weft

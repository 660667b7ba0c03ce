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
           bool accumulate = false) {
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
      EXPECT_EQ(unfused_kind(fusion.op.kind), listed[fusion.second].op->kind);
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
  EXPECT_EQ(found[0].first, 0u);
  EXPECT_EQ(found[0].second, 1u);
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
  list.add(op(OpKind::kLinearWeightGrad), {kX, kDy}, {kDw}, true);
  list.add(sum_leading(2), {kDy}, {kDb}, true);
  list.add(op(OpKind::kGeluGrad), {kH, kT}, {kDx});
  const auto found = list.fusions();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(to_string(found[0].op), "linear_weight_grad_sum");
  EXPECT_THAT(found[0].inputs, ElementsAre(kX, kDy));
  EXPECT_THAT(found[0].outputs, ElementsAre(kDw, kDb));
  EXPECT_EQ(to_string(found[1].op), "linear_input_grad_gelu");
  EXPECT_EQ(found[1].first, 0u);
  EXPECT_EQ(found[1].second, 3u);
  EXPECT_THAT(found[1].inputs, ElementsAre(kDy, kW, kH));
  EXPECT_THAT(found[1].outputs, ElementsAre(kDx));
}

TEST(Fusion, BothGradientsAreAddedOrNeither) {
  List list = forward();
  list.add(op(OpKind::kLinearWeightGrad), {kX, kDy}, {kDw}, true);
  list.add(sum_leading(2), {kDy}, {kDb}, false);
  EXPECT_TRUE(list.fusions().empty());
  List other = forward();
  other.add(op(OpKind::kLinearWeightGrad), {kX, kDy}, {kDw});
  other.add(sum_leading(1), {kDy}, {kDb});
  EXPECT_TRUE(other.fusions().empty());
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

#include "mesh/strategy/strategy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/autodiff/differentiate.h"
#include "core/base/error.h"
#include "core/ops/graph_builder.h"
#include "core/ops/op_definition.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// Builds two linear layers, the second with a vocabulary of 6.
TrainingGraph small_model() {
  GraphBuilder b;
  const ValueId x = b.input("x", {DType::kF32, {4, 8}}, {"batch", "embed"});
  const ValueId targets = b.input("targets", {DType::kI32, {4}}, {"batch"});
  const ValueId h =
      b.gelu(b.linear(x, b.parameter("expand", {8, 16}, normal(0.02), {"embed", "mlp"})));
  const ValueId logits = b.linear(h, b.parameter("head", {16, 6}, normal(0.02), {"mlp", "vocab"}));
  return differentiate(b.graph(), b.cross_entropy(logits, targets, 0.25));
}

struct SmallMesh {
  TrainingGraph model = small_model();
  DeviceMesh mesh{
      "square",
      {{"i", 2}, {"j", 2}, {"one", 1}},
      {transfer::DeviceId(0), transfer::DeviceId(1), transfer::DeviceId(2), transfer::DeviceId(3)}};
  MeshGraph part{model.graph, mesh, {}};

  SmallMesh() {
    for (std::size_t i = 0; i < model.graph.nodes().size(); ++i) part.nodes.emplace_back(i);
  }
  ShardingStrategy read(const std::string& text) const {
    return strategy_of(part, read_strategy(text, "mine.strategy"));
  }
  std::string refusal(const std::string& text) const {
    return test::error_message(ErrorCode::kInvalidConfig, [&] { (void)read(text); });
  }
  /// Returns the error of the text with `from` replaced by `to`.
  std::string refusal(const std::string& from, const std::string& to) const;

  ValueId value(const std::string& name) const {
    for (std::size_t i = 0; i < model.graph.values().size(); ++i)
      if (model.graph.values()[i].name == name) return ValueId(i);
    ADD_FAILURE() << "no value " << name;
    return {};
  }
  const OpSharding& op(const ShardingStrategy& strategy, const std::string& output) const {
    return strategy.ops.at(*model.graph.value(value(output)).producer);
  }
};

constexpr const char* kGood = R"(weft-strategy 1
mesh square i=2 j=2 one=1
gather use

home expand [-,j]
home head [j+i,-]

# what comes in
home x [i,-]
home targets [i]

op linear [i,-] [-,j] -> [i,j]
op gelu [i,j] -> [i,j]
)";

std::string SmallMesh::refusal(const std::string& from, const std::string& to) const {
  std::string text = kGood;
  text.replace(text.find(from), from.size(), to);
  return refusal(text);
}

TEST(StrategyText, ReadsHomesAndOps) {
  const SmallMesh small;
  const ShardingStrategy strategy = small.read(kGood);
  EXPECT_EQ(strategy.gather, GatherFrequency::kUse);
  EXPECT_EQ(strategy.storage_specs.size(), 4u);
  EXPECT_EQ(strategy.storage_specs.at(small.value("head")), (Spec{{{1, 0}, {}}, {}}));
  const Node& linear =
      small.model.graph.node(*small.model.graph.value(small.value("linear")).producer);
  const OpSpecs specs =
      specs_of(factor_signature(small.model.graph, linear), small.op(strategy, "linear"));
  EXPECT_EQ(to_string(specs.inputs[1], small.mesh), "[-,j]");
  EXPECT_EQ(to_string(specs.outputs[0], small.mesh), "[i,j]");
}

TEST(StrategyText, OmittedOpsAreReplicatedOrInherited) {
  const SmallMesh small;
  const ShardingStrategy strategy = small.read(kGood);
  EXPECT_EQ(strategy.ops.size(), small.model.graph.nodes().size());
  for (const auto& [id, sharding] : strategy.ops) {
    const Node& node = small.model.graph.node(id);
    if (node.forward) {
      EXPECT_EQ(sharding, inherited(small.model.graph, node, strategy.ops.at(*node.forward)));
    } else if (node.op.kind == OpKind::kCrossEntropy) {
      for (const auto& axes : sharding.axes) EXPECT_TRUE(axes.empty());
    }
  }
}

TEST(StrategyText, ReadsTheStrategiesThatItWrites) {
  const SmallMesh small;
  const ShardingStrategy strategy = small.read(kGood);
  const std::string text = write_strategy(small.part, strategy, {});
  EXPECT_EQ(small.read(text), strategy);
  EXPECT_EQ(write_strategy(small.part, small.read(text), {}), text);
  EXPECT_THAT(text, StartsWith("weft-strategy 1\nmesh square i=2 j=2 one=1\ngather use\n\n"
                               "home expand [-,j]\nhome head [j+i,-]\n\nhome x [i,-]\n"));
  EXPECT_THAT(text, EndsWith("op linear [i,-] [-,j] -> [i,j]\nop gelu [i,j] -> [i,j]\n"));
}

TEST(StrategyText, WritesBackwardOpsThatDifferFromTheirInheritedSharding) {
  const SmallMesh small;
  ShardingStrategy strategy = small.read(kGood);
  NodeId backward;
  for (const auto& [id, sharding] : strategy.ops)
    if (small.model.graph.node(id).op.kind == OpKind::kGeluGrad) backward = id;
  for (auto& axes : strategy.ops[backward].axes) axes.clear();
  const std::string text = write_strategy(small.part, strategy, {});
  const std::string name =
      small.model.graph.value(small.model.graph.node(backward).outputs[0]).name;
  EXPECT_THAT(text, HasSubstr("op " + name + " [-,-] [-,-] -> [-,-]\n"));
  EXPECT_EQ(small.read(text), strategy);
}

TEST(StrategyText, KeepsPartialSumsThatAnOpPassesOn) {
  GraphBuilder b;
  const ValueId x = b.input("x", {DType::kF32, {4}}, {"batch"});
  b.add(x, x);
  const SmallMesh square;
  const MeshGraph part{b.graph(), square.mesh, {NodeId(0)}};
  ShardingStrategy strategy;
  strategy.storage_specs[x] = Spec::replicated(1);
  strategy.ops[NodeId(0)] = {{{0}}, {1}};
  const std::string text = write_strategy(part, strategy, {});
  EXPECT_THAT(text, HasSubstr("op add [i] [i] -> [i] partial(j)\n"));
  EXPECT_EQ(strategy_of(part, read_strategy(text, "mine.strategy")), strategy);
}

TEST(StrategyText, AForwardGraphTakesItsPartOfATrainingGraphs) {
  const SmallMesh small;
  const std::string all =
      std::string(kGood) + "op linear.linear_weight_grad [i,-] [i,j] -> [-,j]\n";
  GraphBuilder b;
  const ValueId x = b.input("x", {DType::kF32, {2, 8}}, {"batch", "embed"});
  b.gelu(b.linear(x, b.parameter("expand", {8, 16}, normal(0.02), {"embed", "mlp"})));
  const MeshGraph forward{b.graph(), small.mesh, {NodeId(0), NodeId(1)}};
  const ShardingStrategy strategy = strategy_of(forward, read_strategy(all, "mine.strategy"));
  EXPECT_EQ(strategy.ops.size(), 2u);
  EXPECT_EQ(strategy.storage_specs.size(), 2u);
}

TEST(StrategyText, HeadersSayWhatTheyLack) {
  const auto header = [](const std::string& text) {
    return test::error_of([&] { (void)read_strategy(text, "mine.strategy"); }).message();
  };
  EXPECT_THAT(header(""), HasSubstr("mine.strategy:1:1: the file is empty"));
  EXPECT_THAT(header("meshes:\n"), HasSubstr("mine.strategy:1:1: a strategy begins with"));
  EXPECT_THAT(header("weft-strategy 2\n"), HasSubstr("mine.strategy:1:15: this Weft reads"));
  EXPECT_THAT(header("weft-strategy 1\n"),
              HasSubstr("a line 'mesh NAME axis=size ...' is missing"));
  EXPECT_THAT(header("weft-strategy 1\nmesh a i=0\n"),
              HasSubstr("mine.strategy:2:8: expected NAME="));
  EXPECT_THAT(header("weft-strategy 1\nmesh a i=2 i=2\n"), HasSubstr(":2:12: a second axis 'i'"));
  EXPECT_THAT(header("weft-strategy 1\nmesh a i=2\nmesh a i=2\n"),
              HasSubstr(":3:1: a second 'mesh' line; only one is allowed"));
  EXPECT_THAT(
      header("weft-strategy 1\nmesh a i=2\ngather stop\n"),
      HasSubstr(":3:8: expected step, microbatch, use, found 'stop'; did you mean 'step'?"));
  EXPECT_THAT(header("weft-strategy 1\nmesh a i=2\nsplits row=2\n"),
              HasSubstr(":3:8: unknown split 'row'; expected one of residual, hidden, rows, "
                        "early-input-grad; did you mean 'rows'?"));
  EXPECT_THAT(header("weft-strategy 1\nmesh a i=2\nhomes x [i]\n"),
              HasSubstr(":3:1: unknown keyword 'homes'"));
  EXPECT_THAT(header("weft-strategy 1\nmesh a i=2\n\nweft-strategy 1\n"),
              HasSubstr(":4:1: a second strategy begins here; a file may hold only one mesh's"));
  const StrategyText text =
      read_strategy("weft-strategy 1\nmesh a i=2\nsplits residual=2 rows=4\n", "x");
  EXPECT_EQ(text.splits, (FeatureSplits{2, 1, 4}));
  const StrategyText early =
      read_strategy("weft-strategy 1\nmesh a i=2\nsplits hidden=2 early-input-grad\n", "x");
  EXPECT_EQ(early.splits, (FeatureSplits{1, 2, 1, true}));
  EXPECT_EQ(text.mesh, "a");
}

TEST(StrategyText, MistakesHavePlaceAndNearestName) {
  const SmallMesh small;
  EXPECT_THAT(
      small.refusal("home head", "home haed"),
      HasSubstr("mine.strategy:6:6: mesh 'square' has no value 'haed'; did you mean 'head'?"));
  EXPECT_THAT(
      small.refusal("op gelu", "op gelo"),
      HasSubstr("mine.strategy:13:4: mesh 'square' has no op 'gelo'; did you mean 'gelu'?"));
  EXPECT_THAT(
      small.refusal("head [j+i,-]", "head [j+k,-]"),
      HasSubstr("mine.strategy:6:14: mesh square(i=2,j=2,one=1) has no axis 'k', only i, j, "
                "one"));
  EXPECT_THAT(small.refusal("head [j+i,-]", "head [j,i+j]"),
              HasSubstr("mine.strategy:6:14: axis 'j' is used twice"));
  EXPECT_THAT(small.refusal("head [j+i,-]", "head [-,j+i]"),
              HasSubstr("mine.strategy:6:14: dimension 1 of 'head' [16,6] does not divide 4 ways "
                        "over j+i; the next number that does is 8"));
  EXPECT_THAT(small.refusal("head [j+i,-]", "head [j+i]"),
              HasSubstr("mine.strategy:6:11: 'head' [16,6] has 2 dimensions, not 1"));
  EXPECT_THAT(small.refusal("home targets [i]", "home x [i,-]"),
              HasSubstr("mine.strategy:10:6: 'x' was already given in line 9"));
  EXPECT_THAT(small.refusal("home head [j+i,-]", ""),
              HasSubstr("'head' is not computed on mesh 'square' and has no home; say how it is "
                        "kept, as in 'home head [-,-]'"));
  EXPECT_THAT(small.refusal("home x [i,-]", "home x [i,-] partial(j)"),
              HasSubstr("mine.strategy:9:14: unexpected text at the end of this line"));
  EXPECT_THAT(small.refusal("home x [i,-]", "home x"), HasSubstr("9:6: expected 'home NAME"));
  EXPECT_THAT(small.refusal("home x [i,-]", "home x [i,-"), HasSubstr("9:8: expected the axes"));
}

TEST(StrategyText, OpsThatCannotBeSplitSoAreRefusedAtTheirLine) {
  const SmallMesh small;
  const std::string linear = "op linear [i,-] [-,j] -> [i,j]";
  EXPECT_THAT(
      small.refusal(linear, "op linear [i,-] [i,j] -> [i,j]"),
      HasSubstr("mine.strategy:12:18: dimension 0 of 'expand' is dimension 1 of 'x' in this "
                "op: they must be split alike, not by i and -"));
  EXPECT_THAT(small.refusal(linear, "op linear [i,-] [-,i] -> [i,i]"),
              HasSubstr("mine.strategy:12:4: linear 'linear' on mesh square(i=2,j=2,one=1): axis "
                        "'i' is used twice"));
  EXPECT_THAT(small.refusal(linear, "op linear [i,-] -> [i,j]"),
              HasSubstr("has 2 inputs and 1 outputs: expected a line such as 'op linear [-,-] "
                        "[-,-] -> [-,-]'"));
  EXPECT_THAT(small.refusal("[i,j] -> [i,j]\n", "[i,j] -> [i,j] x\n"),
              HasSubstr("13:24: expected"));
  EXPECT_THAT(small.refusal("op gelu [i,j] -> [i,j]", "op gelu [i,-] -> [i,-] partial(j)"),
              HasSubstr("mine.strategy:13:9: gelu cannot take partial sums"));
  EXPECT_THAT(small.refusal("op gelu [i,j] -> [i,j]", "op cross_entropy [i,j] [i] -> []"),
              HasSubstr("must be whole on each device"));
}

TEST(StrategyText, AStrategyOfAnotherMeshOrGraphIsRefused) {
  const SmallMesh small;
  EXPECT_EQ(small.refusal("i=2 j=2 one=1", "i=2 j=4"),
            "mine.strategy:2:6: this strategy is for a mesh of i=2 j=4, and 'square' has i=2 j=2 "
            "one=1");
  const std::string other =
      "weft-strategy 1\nmesh square i=2 j=2 one=1\nhome a [i]\nhome b [i]\n"
      "op c [i] -> [i]\nhome x [i,-]\n";
  EXPECT_THAT(small.refusal(other),
              HasSubstr("mine.strategy:1:1: this strategy is for another graph: 3 of its 4 lines"));
}

TEST(StrategyText, TellsAllMistakesAtOnce) {
  const SmallMesh small;
  std::string text = kGood;
  text.replace(text.find("home head"), 9, "home haed");
  text.replace(text.find("op gelu"), 7, "op gelo");
  EXPECT_THAT(small.refusal(text), HasSubstr("'haed'"));
  EXPECT_THAT(small.refusal(text), HasSubstr("'gelo'"));
}

}  // namespace
}  // namespace weft::mesh

#include "apps/models/conditional_unet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/ops/op_definition.h"
#include "tests/support/small_u_transformer.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
using ::testing::HasSubstr;

Graph graph_of(std::int64_t channels) {
  return conditional_unet_graph({.channels = channels}, 1.0).graph;
}

/// Returns the numbers of parameter elements that are first used by blocks [0, split), and by later
/// blocks.
std::pair<std::int64_t, std::int64_t> split_parameters(const Graph& graph, int split) {
  std::pair<std::int64_t, std::int64_t> result;
  for (const Parameter& parameter : graph.parameters()) {
    int block = graph.num_blocks();
    for (const Node& node : graph.nodes()) {
      if (std::ranges::count(node.inputs, parameter.value) > 0) block = std::min(block, node.block);
    }
    (block < split ? result.first : result.second) += graph.value(parameter.value).type.elements();
  }
  return result;
}

/// Returns the elements per sample of the values that blocks before `split` pass to later ones.
std::int64_t crossing_elements(const Graph& graph, int split) {
  std::set<ValueId> crossing;
  for (const test::BlockEdge& edge : test::block_edges(graph)) {
    if (edge.from < split && edge.to >= split) crossing.insert(edge.value);
  }
  std::int64_t elements = 0;
  for (const ValueId value : crossing) elements += graph.value(value).type.elements();
  return elements;
}

double billions(std::int64_t count) { return std::round(count * 1e-6) * 1e-3; }

double gigaflops(const Graph& graph, int from, int to) {
  double flops = 0;
  for (const Node& node : graph.nodes()) {
    if (node.block >= from && node.block < to) flops += cost(graph, node).flops;
  }
  return flops * 1e-9;
}

TEST(ConditionalUnet, InBf16OnlyItsInputsAreConverted) {
  const ConditionalUnetGraph model =
      conditional_unet_graph({.channels = 32, .precision = DType::kBF16}, 1.0);
  const TrainingGraph training = differentiate(model.graph, model.loss);
  std::set<ValueId> converted;
  for (const Node& node : training.graph.nodes()) {
    EXPECT_NE(node.op.kind, OpKind::kToF32);
    if (node.op.kind == OpKind::kToBF16) converted.insert(node.inputs[0]);
  }
  EXPECT_EQ(converted, (std::set<ValueId>{model.pixels, model.time_features, model.context}));
  EXPECT_EQ(training.graph.value(model.output).type.dtype, DType::kBF16);
}

TEST(ConditionalUnet, HasThePapersParameterCounts) {
  EXPECT_EQ(graph_of(320).num_parameter_elements(), 483'775'364);
  EXPECT_EQ(graph_of(480).num_parameter_elements(), 1'088'312'644);
  EXPECT_EQ(graph_of(512).num_parameter_elements(), 1'238'232'068);
  EXPECT_EQ(graph_of(640).num_parameter_elements(), 1'934'616'324);
  EXPECT_EQ(graph_of(672).num_parameter_elements(), 2'132'889'028);
}

TEST(ConditionalUnet, HasThePapersThirteenLayersAndStages) {
  EXPECT_EQ(graph_of(320).num_blocks(), 13);
  const auto check = [](std::int64_t channels, int split, double first, double second) {
    const auto [before, after] = split_parameters(graph_of(channels), split);
    EXPECT_DOUBLE_EQ(billions(before), first) << channels;
    EXPECT_DOUBLE_EQ(billions(after), second) << channels;
  };
  check(320, 7, 0.233, 0.251);
  check(480, 8, 0.635, 0.453);
  check(672, 9, 1.461, 0.672);
}

TEST(ConditionalUnet, HandsOnWhatThePaperCounts) {
  // Hidden tensor and skips, plus the time embedding of 4C, which the paper does not count.
  const auto check = [](std::int64_t channels, int split, std::int64_t multiple) {
    EXPECT_EQ(crossing_elements(graph_of(channels), split), (multiple + 4) * channels) << channels;
  };
  check(672, 9, 1856);
  check(480, 8, 1920);
  check(320, 7, 1984);
}

TEST(ConditionalUnet, TakesThePapersTime) {
  // Within 1 %, as norms and activations are counted here.
  const Graph small = graph_of(320), large = graph_of(672);
  EXPECT_NEAR(gigaflops(small, 0, 13), 86.2, 0.9);
  EXPECT_NEAR(gigaflops(small, 0, 7), 29.4, 0.3);
  EXPECT_NEAR(gigaflops(large, 0, 13), 372.9, 3.7);
  EXPECT_NEAR(gigaflops(large, 0, 9), 139.4, 1.4);
}

TEST(ConditionalUnet, CanBeDifferentiated) {
  EXPECT_TRUE(
      test::trains_every_parameter(conditional_unet_graph({.channels = 32, .batch = 2}, 1.0)));
}

TEST(ConditionalUnet, RefusesSizesThatDoNotFit) {
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidArgument,
                                  [] { conditional_unet_graph({.channels = 100}, 1.0); }),
              HasSubstr("100"));
  EXPECT_THAT(test::error_message(ErrorCode::kInvalidArgument,
                                  [] { conditional_unet_graph({.size = 20}, 1.0); }),
              HasSubstr("20"));
}

}  // namespace
}  // namespace weft::apps

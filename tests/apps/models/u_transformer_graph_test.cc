#include "apps/models/u_transformer_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/small_u_transformer.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using test::kSmallUTransformer;

/// Numbers of parameters of a convolution, a norm and a linear layer.
constexpr std::int64_t convolution(std::int64_t kernel, std::int64_t in, std::int64_t out) {
  return kernel * kernel * in * out + out;
}
constexpr std::int64_t norm(std::int64_t width) { return 2 * width; }
constexpr std::int64_t linear(std::int64_t in, std::int64_t out) { return in * out + out; }
constexpr std::int64_t twice(std::int64_t in, std::int64_t out) {
  return convolution(3, in, out) + convolution(3, out, out) + 2 * norm(out);
}
constexpr std::int64_t gate(std::int64_t deep, std::int64_t skip, std::int64_t positions) {
  return norm(deep) + positions * deep + convolution(2, skip, skip) + norm(skip) +
         2 * linear(deep, skip) + 2 * linear(skip, skip);
}

TEST(UTransformerGraph, HasAsManyParametersAsItsPartsHave) {
  const UTransformerGraph model = u_transformer_graph(kSmallUTransformer, 1.0);
  const std::int64_t down =
      twice(1, 8) + convolution(3, 8, 16) + twice(16, 16) + convolution(3, 16, 32);
  const std::int64_t bottom = twice(32, 32) + norm(32) + 2 * 3 * 32 + 4 * linear(32, 32);
  const std::int64_t up1 = gate(32, 16, 2 * 3) + convolution(3, 32, 16) + twice(32, 16);
  const std::int64_t up0 = gate(16, 8, 4 * 6) + convolution(3, 16, 8) + twice(16, 8);
  EXPECT_EQ(model.graph.num_parameter_elements(), down + bottom + up1 + up0 + linear(8, 3));
  EXPECT_EQ(model.graph.num_blocks(), 5);
  EXPECT_EQ(to_string(model.graph.value(model.logits).type), "f32[2,8,12,3]");
}

TEST(UTransformerGraph, ASkipGoesFromEveryLevelDownToTheSameLevelUp) {
  std::vector<std::pair<int, int>> skips;
  for (const test::BlockEdge& edge :
       test::block_edges(u_transformer_graph(kSmallUTransformer, 1.0).graph)) {
    if (edge.to > edge.from + 1) skips.emplace_back(edge.from, edge.to);
  }
  // Each skip has two readers: the gate, and the multiplication by the gate.
  EXPECT_EQ(skips, (std::vector<std::pair<int, int>>{{1, 3}, {1, 3}, {0, 4}, {0, 4}}));
}

TEST(UTransformerGraph, SkipsWithoutAttentionHaveNoGate) {
  UTransformerShape shape = kSmallUTransformer;
  shape.attended_skips = 1;
  const Graph graph = u_transformer_graph(shape, 1.0).graph;
  EXPECT_EQ(graph.num_parameter_elements(),
            u_transformer_graph(kSmallUTransformer, 1.0).graph.num_parameter_elements() -
                gate(16, 8, 4 * 6));
}

TEST(UTransformerGraph, CanBeDifferentiated) {
  EXPECT_TRUE(test::trains_every_parameter(u_transformer_graph(kSmallUTransformer, 1.0)));
}

TEST(UTransformerGraph, RefusesPicturesThatCannotBeHalved) {
  UTransformerShape shape = kSmallUTransformer;
  shape.width = 10;
  EXPECT_THAT(
      test::error_message(ErrorCode::kInvalidArgument, [&] { u_transformer_graph(shape, 1.0); }),
      ::testing::HasSubstr("8 x 10 cannot be halved 2 times: both must be multiples of 4"));
}

}  // namespace
}  // namespace weft::apps

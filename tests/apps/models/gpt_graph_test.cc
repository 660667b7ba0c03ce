#include "apps/models/gpt_graph.h"

#include <gtest/gtest.h>

#include <set>

#include "core/autodiff/differentiate.h"
#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

TEST(GptGraph, HasAsManyParametersAsTheFormulaSays) {
  const GptShape shape{
      .layers = 3, .width = 32, .heads = 4, .sequence = 16, .batch = 2, .vocabulary = 100};
  const GptGraph gpt = gpt_graph(shape, 1.0);
  const std::int64_t per_layer = 12 * 32 * 32 + 13 * 32;
  EXPECT_EQ(gpt.graph.num_parameter_elements(), 3 * per_layer + 2 * 100 * 32 + 16 * 32 + 2 * 32);
  EXPECT_EQ(gpt.graph.num_blocks(), 3);
  EXPECT_EQ(to_string(gpt.graph.value(gpt.logits).type), "f32[2,16,100]");
}

TEST(GptGraph, TiedEmbeddingsSaveTheOutputLayersTableAndHaveTwoGradientTerms) {
  GptShape shape{
      .layers = 3, .width = 32, .heads = 4, .sequence = 16, .batch = 2, .vocabulary = 100};
  const std::int64_t untied = gpt_graph(shape, 1.0).graph.num_parameter_elements();
  shape.tied_embeddings = true;
  const GptGraph gpt = gpt_graph(shape, 1.0);
  EXPECT_EQ(gpt.graph.num_parameter_elements(), untied - 100 * 32);
  EXPECT_EQ(to_string(gpt.graph.value(gpt.logits).type), "f32[2,16,100]");
  EXPECT_EQ(differentiate(gpt.graph, gpt.loss).gradients.size(), gpt.graph.parameters().size() + 1);
}

TEST(GptGraph, CanBeDifferentiated) {
  const GptGraph gpt = gpt_graph({}, 1.0);
  const TrainingGraph training = differentiate(gpt.graph, gpt.loss);
  EXPECT_EQ(training.gradients.size(), gpt.graph.parameters().size());
}

TEST(GptGraph, InBf16OnlyTheLossStatisticsAndGradientsOfParametersAreF32AndNothingIsConverted) {
  const GptGraph gpt = gpt_graph({.tied_embeddings = true, .precision = DType::kBF16}, 1.0);
  const TrainingGraph training = differentiate(gpt.graph, gpt.loss);
  std::set<ValueId> f32{training.loss};
  for (const Gradient& gradient : training.gradients) f32.insert(gradient.gradient);
  for (const Node& node : training.graph.nodes()) {
    if (node.op.kind == OpKind::kAttention) f32.insert(node.outputs[1]);
    EXPECT_TRUE(node.op.kind != OpKind::kToF32 && node.op.kind != OpKind::kToBF16);
    for (const ValueId output : node.outputs)
      EXPECT_EQ(training.graph.value(output).type.dtype == DType::kF32, f32.contains(output))
          << to_string(node.op);
  }
}

TEST(GptGraph, RefusesHeadsThatDoNotDivideTheWidth) {
  EXPECT_THAT([&] { gpt_graph({.width = 100, .heads = 3}, 1.0); },
              test::throws_error(ErrorCode::kInvalidArgument,
                                 "the width 100 cannot be divided among 3 heads"));
}

}  // namespace
}  // namespace weft::apps

// Tests embedding and output layer as separate blocks, for the apps' models and for small ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "apps/models/gpt_graph.h"
#include "apps/models/u_transformer_graph.h"
#include "core/autodiff/differentiate.h"
#include "core/ops/graph_builder.h"
#include "mesh/layouts/separate_vocabulary.h"
#include "tests/support/thrown_error.h"

namespace weft::test {
namespace {

using mesh::SeparatedVocabulary;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TrainingGraph gpt(std::int64_t layers, bool tied) {
  const apps::GptGraph model = apps::gpt_graph({layers, 16, 2, 6, 2, 30, tied}, 0.1);
  return differentiate(model.graph, model.loss);
}

/// Returns the ops of a block, in order, as "F embedding".
std::vector<std::string> nodes_of(const Graph& graph, int block) {
  std::vector<std::string> nodes;
  for (const Node& node : graph.nodes())
    if (node.block == block)
      nodes.push_back(std::string(to_string(node.pass)) + " " +
                      std::string(to_string(node.op.kind)));
  return nodes;
}

/// Describes a graph without block numbers and ids: one line per node, with values by name.
std::multiset<std::string> without_blocks(const Graph& graph) {
  std::multiset<std::string> lines;
  for (const Node& node : graph.nodes()) {
    std::string line = std::string(to_string(node.pass)) + " " + to_string(node.op) + ":";
    for (const ValueId input : node.inputs) line += " " + graph.value(input).name;
    for (const ValueId output : node.outputs) {
      const Value& value = graph.value(output);
      line += " -> " + value.name + " " + to_string(value.type);
      if (value.gradient_of) line += " of " + graph.value(*value.gradient_of).name;
    }
    lines.insert(line);
  }
  return lines;
}

/// Returns the blocks of a parameter's gradient terms, in order.
std::vector<int> blocks_of_terms(const TrainingGraph& model, const std::string& parameter) {
  std::vector<int> blocks;
  for (const Gradient& gradient : model.gradients)
    if (model.graph.value(gradient.parameter).name == parameter)
      blocks.push_back(model.graph.node(*model.graph.value(gradient.gradient).producer).block);
  return blocks;
}

TEST(SeparateVocabulary, PutsAGptsEmbeddingAndOutputLayerIntoBlocksOfTheirOwn) {
  const TrainingGraph model = gpt(3, false);
  const SeparatedVocabulary result = mesh::separate_vocabulary(model);
  EXPECT_TRUE(result.input);
  EXPECT_TRUE(result.output);
  const Graph& graph = result.graph.graph;
  EXPECT_EQ(graph.num_blocks(), 5);
  EXPECT_THAT(nodes_of(graph, 0), ElementsAre("F embedding", "W embedding_grad"));
  EXPECT_THAT(nodes_of(graph, 4), ElementsAre("F linear", "F cross_entropy", "I cross_entropy_grad",
                                              "I linear_input_grad", "W linear_weight_grad"));
  EXPECT_THAT(nodes_of(graph, 1).front(), "F add");
  EXPECT_EQ(without_blocks(graph), without_blocks(model.graph));
  EXPECT_EQ(graph.value(result.graph.loss).name, model.graph.value(model.loss).name);
  EXPECT_EQ(result.graph.gradients.size(), model.gradients.size());
  for (std::size_t i = 0; i < model.graph.nodes().size(); ++i) {
    const int old = model.graph.nodes()[i].block, now = graph.nodes()[i].block;
    EXPECT_TRUE(now == old + 1 || now == 0 || now == 4) << "node " << i;
  }
}

TEST(SeparateVocabulary, GivesATiedTableATermFromEachEnd) {
  const TrainingGraph model = gpt(3, true);
  const SeparatedVocabulary result = mesh::separate_vocabulary(model);
  EXPECT_THAT(nodes_of(result.graph.graph, 4),
              ElementsAre("F linear_input_grad", "F cross_entropy", "I cross_entropy_grad",
                          "I linear", "W linear_weight_grad"));
  EXPECT_THAT(blocks_of_terms(result.graph, "embedding"), ElementsAre(0, 4));
}

// A single layer: embedding and output layer are in one block, which sums both terms.
TEST(SeparateVocabulary, TakesASumApartWhoseTermsAreInTwoBlocksNow) {
  const TrainingGraph model = gpt(1, true);
  ASSERT_THAT(blocks_of_terms(model, "embedding"), ElementsAre(0));
  const SeparatedVocabulary result = mesh::separate_vocabulary(model);
  EXPECT_THAT(blocks_of_terms(result.graph, "embedding"), ElementsAre(0, 2));
  EXPECT_EQ(result.graph.graph.nodes().size() + 1, model.graph.nodes().size());
  EXPECT_EQ(result.graph.gradients.size(), model.gradients.size() + 1);
}

TEST(SeparateVocabulary, LeavesBlocksAsTheyAreWithoutAnEmbedding) {
  GraphBuilder b;
  const ValueId x = b.input("x", {DType::kF32, {2, 3, 4}}, {"batch", "sequence", "embed"});
  const ValueId targets = b.input("targets", {DType::kI32, {2, 3}}, {"batch", "sequence"});
  const ValueId hidden = b.linear(x, b.parameter("mix", {4, 4}, normal(1), {"embed", "embed"}));
  b.set_block(1);
  const ValueId active = b.gelu(hidden);
  const ValueId logits =
      b.linear(active, b.parameter("head", {4, 7}, normal(1), {"embed", "vocab"}),
               b.parameter("bias", {7}, zeros(), {"vocab"}, false));
  const ValueId loss = b.cross_entropy(logits, targets, 1);
  const SeparatedVocabulary result = mesh::separate_vocabulary(differentiate(b.graph(), loss));
  EXPECT_FALSE(result.input);
  EXPECT_TRUE(result.output);
  EXPECT_THAT(nodes_of(result.graph.graph, 0), ElementsAre("F linear", "W linear_weight_grad"));
  EXPECT_THAT(nodes_of(result.graph.graph, 1), ElementsAre("F gelu", "I gelu_grad"));
  EXPECT_THAT(nodes_of(result.graph.graph, 2),
              ElementsAre("F linear", "F cross_entropy", "I cross_entropy_grad",
                          "I linear_input_grad", "W linear_weight_grad", "W sum_leading"));
  EXPECT_THAT(blocks_of_terms(result.graph, "bias"), ElementsAre(2));
}

// Both blocks use the embedding. Its gradient is the sum of both blocks' gradients.
TEST(SeparateVocabulary, AddsUpTheEmbeddingsGradientWhereItsTermsMeet) {
  GraphBuilder b;
  const ValueId ids = b.input("ids", {DType::kI32, {2, 3}}, {"batch", "sequence"});
  const ValueId x = b.embedding(b.parameter("table", {7, 4}, normal(1), {"vocab", "embed"}), ids);
  const ValueId first = b.multiply(b.gelu(x), b.silu(x));
  b.set_block(1);
  const ValueId second = b.multiply(first, b.gelu(x));
  const ValueId logits =
      b.linear(second, b.parameter("head", {4, 7}, normal(1), {"embed", "vocab"}));
  const ValueId targets = b.input("targets", {DType::kI32, {2, 3}}, {"batch", "sequence"});
  const SeparatedVocabulary result =
      mesh::separate_vocabulary(differentiate(b.graph(), b.cross_entropy(logits, targets, 1)));
  EXPECT_THAT(nodes_of(result.graph.graph, 0),
              ElementsAre("F embedding", "I add", "W embedding_grad"));
  std::map<int, int> sums;
  for (const Node& node : result.graph.graph.nodes())
    if (node.op.kind == OpKind::kAdd && node.pass == Pass::kInputGrad) ++sums[node.block];
  EXPECT_EQ(sums, (std::map<int, int>{{0, 1}, {1, 1}}));
}

TEST(SeparateVocabulary, TakesGraphsWithoutBackward) {
  const apps::GptGraph model = apps::gpt_graph({2, 16, 2, 6, 2, 30, true}, 0.1);
  const SeparatedVocabulary result = mesh::separate_vocabulary({model.graph, model.loss, {}});
  EXPECT_THAT(nodes_of(result.graph.graph, 0), ElementsAre("F embedding"));
  EXPECT_THAT(nodes_of(result.graph.graph, 3),
              ElementsAre("F linear_input_grad", "F cross_entropy"));
  EXPECT_TRUE(result.graph.gradients.empty());
}

std::string refused(const TrainingGraph& model) {
  const Error error = error_of([&] { mesh::separate_vocabulary(model); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidConfig);
  EXPECT_THAT(error.message(), HasSubstr("pipeline.vocabulary needs a model that ends in a linear "
                                         "and a cross-entropy"));
  return error.message();
}

TEST(SeparateVocabulary, SaysWhatAModelEndsInThatHasNoSuchOutputLayer) {
  const apps::UTransformerGraph pictures = apps::u_transformer_graph(
      {.height = 16, .width = 16, .levels = 2, .channels = 8, .head_dim = 8, .attended_skips = 1},
      1);
  EXPECT_THAT(refused(differentiate(pictures.graph, pictures.loss)),
              HasSubstr("of this model are over 'classes'"));

  GraphBuilder b;
  const ValueId x = b.input("x", {DType::kF32, {2, 4}}, {"batch", "embed"});
  const ValueId y = b.linear(x, b.parameter("w", {4, 4}, normal(1), {"embed", "embed"}));
  EXPECT_THAT(refused(differentiate(b.graph(), b.squared_error(y, x, 1))),
              HasSubstr("of this model is squared_error"));
  const ValueId targets = b.input("targets", {DType::kI32, {2}}, {"batch"});
  const auto refused_logits = [&](ValueId logits) {
    const ValueId loss = b.cross_entropy(logits, targets, 1);
    return refused({b.graph(), loss, {}});
  };
  EXPECT_THAT(refused_logits(b.gelu(y)), HasSubstr("of this model come from gelu"));
  EXPECT_THAT(refused_logits(x), HasSubstr("the logits 'x' of this model are an input of it"));
  EXPECT_THAT(refused_logits(b.linear_transposed(x, y)),
              HasSubstr("are not a parameter of two dimensions"));
}

TEST(SeparateVocabulary, SaysWhatElseUsesTheLogits) {
  GraphBuilder b;
  const ValueId x = b.input("x", {DType::kF32, {2, 4}}, {"batch", "embed"});
  const ValueId targets = b.input("targets", {DType::kI32, {2}}, {"batch"});
  const ValueId logits = b.linear(x, b.parameter("head", {4, 7}, normal(1), {"embed", "vocab"}));
  b.gelu(logits);
  const ValueId loss = b.cross_entropy(logits, targets, 1);
  EXPECT_THAT(refused({b.graph(), loss, {}}), HasSubstr("are used by gelu"));
}

}  // namespace
}  // namespace weft::test

// Tests apps' use of a trained model on every device: the results are those of the CPU.

#include <gtest/gtest.h>

#include <cmath>
#include <stop_token>

#include "apps/data/tokenizer.h"
#include "apps/gpt/generate.h"
#include "apps/u_transformer/segmentation.h"
#include "core/cpu/cpu_device.h"
#include "core/graph/fill_parameter.h"
#include "core/tensor/region.h"
#include "tests/driver_device/kinds.h"
#include "tests/support/small_u_transformer.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

/// Returns initial values, scaled up so that no two logits are about equal.
std::vector<ParameterState> some_parameters(const Graph& graph) {
  std::vector<ParameterState> parameters;
  for (const Parameter& parameter : graph.parameters()) {
    const Value& value = graph.value(parameter.value);
    std::vector<float> values(value.type.elements());
    fill_parameter(value.name, value.type.shape, Region::whole(value.type.shape),
                   parameter.initializer, 1, values);
    if (value.type.shape.size() > 1) {
      for (float& number : values) number *= 3;
    }
    parameters.push_back({.name = value.name, .shape = value.type.shape, .values = values});
  }
  return parameters;
}

class TrainedModel : public test::EveryDevice {};

TEST_P(TrainedModel, WritesTheSameText) {
  const GptShape shape{
      .layers = 2, .width = 16, .heads = 2, .sequence = 8, .batch = 4, .vocabulary = 256};
  const std::vector<ParameterState> parameters = some_parameters(gpt_graph(shape, 1.0).graph);
  const auto tokenizer = byte_tokenizer();
  CpuDevice cpu;
  for (const double temperature : {0.0, 1.0}) {
    const SampleConfig sample{.prompt = "abc", .tokens = 30, .temperature = temperature};
    const std::string text = generate(*device_, shape, views_of(parameters), *tokenizer, sample, 1);
    EXPECT_EQ(text.size(), 33u);
    EXPECT_EQ(text, generate(*device_, shape, views_of(parameters), *tokenizer, sample, 1));
    EXPECT_EQ(text, generate(cpu, shape, views_of(parameters), *tokenizer, sample, 1));
  }
}

TEST_P(TrainedModel, EndsEarlyWhenItIsInterrupted) {
  const GptShape shape{
      .layers = 2, .width = 16, .heads = 2, .sequence = 8, .batch = 4, .vocabulary = 256};
  const std::vector<ParameterState> parameters = some_parameters(gpt_graph(shape, 1.0).graph);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(generate(*device_, shape, views_of(parameters), *byte_tokenizer(), {.prompt = "abc"}, 1,
                     stop.get_token()),
            "abc");
  const Graph graph = u_transformer_graph(test::kSmallUTransformer, 1.0).graph;
  EXPECT_THAT(
      [&] {
        segment(*device_, test::kSmallUTransformer, views_of(some_parameters(graph)),
                {BrainSlice()}, stop.get_token());
      },
      test::throws_error(ErrorCode::kCancelled, "interrupted after 0 of 1 slices"));
}

TEST_P(TrainedModel, SeesTheSameRegions) {
  const UTransformerShape& shape = test::kSmallUTransformer;
  const std::vector<ParameterState> parameters =
      some_parameters(u_transformer_graph(shape, 1.0).graph);
  std::vector<BrainSlice> slices(3);
  const std::size_t pixels = shape.height * shape.width;
  for (std::size_t i = 0; i < slices.size() * pixels; ++i)
    slices[i / pixels].pixels.push_back(2 * std::sin(static_cast<float>(i * i % 1009)));
  CpuDevice cpu;
  const std::vector<Segmentation> seen = segment(*device_, shape, views_of(parameters), slices);
  const std::vector<Segmentation> expected = segment(cpu, shape, views_of(parameters), slices);
  ASSERT_EQ(seen.size(), slices.size());
  std::size_t others = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    ASSERT_EQ(seen[i].size(), pixels);
    for (std::size_t pixel = 0; pixel < pixels; ++pixel)
      others += seen[i][pixel] == expected[i][pixel] ? 0 : 1;
  }
  EXPECT_LE(others, is_exact() ? 0 : 3 * pixels / 100);
  EXPECT_NE(seen[0], Segmentation(pixels, seen[0][0])) << "one region says nothing";
}

INSTANTIATE_TEST_SUITE_P(On, TrainedModel, testing::ValuesIn(test::device_kinds()), test::name_of);

}  // namespace
}  // namespace weft::apps

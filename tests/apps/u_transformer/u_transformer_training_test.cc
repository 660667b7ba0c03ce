#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/u_transformer/segmentation.h"
#include "apps/u_transformer/u_transformer_app.h"
#include "core/config/config_document.h"
#include "core/cpu/cpu_device.h"
#include "core/evaluate/one_device_trainer.h"
#include "tests/support/small_u_transformer.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
using ::testing::HasSubstr;

constexpr const char* kModel =
    "model: {height: 16, width: 24, levels: 2, channels: 8, head_dim: 4}\n";

std::string refusal(const std::string& yaml) {
  const auto document = ConfigDocument::parse(yaml, "c.yaml");
  UTransformerApp app;
  document.try_section([&] { app.describe_model(document.root(), {}, 1); });
  return test::error_message(ErrorCode::kInvalidConfig, [&] { document.finish(); });
}

TEST(UTransformerApp, ReadsItsSectionsAndMakesItsModel) {
  const auto document =
      ConfigDocument::parse(std::string(kModel) + "data: {plane: coronal}\n", "c.yaml");
  UTransformerApp app;
  const ModelDescription model =
      app.describe_model(document.root(), {.rows_per_microbatch = 3, .microbatches = 2}, 1);
  document.finish();
  EXPECT_EQ(model.unit, "slices");
  EXPECT_EQ(model.graphs.train.graph.num_blocks(), 5);
  EXPECT_EQ(model.graphs.train.graph.value(model.graphs.train.graph.inputs()[0].value).type.shape,
            (Shape{3, 16, 24, 1}));
  EXPECT_THAT(model.text, HasSubstr("2 of 2 skips attended"));
}

TEST(UTransformerApp, MistakesAreReportedWithTheirPlace) {
  EXPECT_EQ(refusal(kModel), "");
  EXPECT_THAT(refusal("model: {height: 16, width: 22, levels: 2, channels: 8, head_dim: 4}\n"),
              HasSubstr("c.yaml:1:8: a picture of 16 x 22 cannot be halved 2 times"));
  EXPECT_EQ(
      refusal(
          "model: {height: 16, width: 24, levels: 2, channels: 8, head_dim: 4, precision: bf16}\n"),
      "");
  EXPECT_THAT(
      refusal(
          "model: {height: 16, width: 24, levels: 2, channels: 8, head_dim: 4, precision: half}\n"),
      HasSubstr("model.precision: expected one of f32, bf16"));
  EXPECT_THAT(refusal(std::string(kModel) + "data: {plane: diagonal}\n"), HasSubstr("axial"));
  EXPECT_THAT(refusal(std::string(kModel) + "data: {templates: /nowhere}\n"),
              HasSubstr("there is no folder /nowhere"));
  const std::string two =
      refusal("model: {height: 16, width: 24, levles: 2, channels: 8}\ndata: {slab: 0}\n");
  EXPECT_THAT(two, HasSubstr("levels"));
  EXPECT_THAT(two, HasSubstr("slab"));
}

TEST(DiceScore, IsTwiceTheCommonPartOverBoth) {
  DiceScore count(4);
  count.add(Segmentation{0, 1, 1, 1}, Segmentation{0, 1, 2, 1});
  count.add(Segmentation{0, 0, 2, 0}, Segmentation{0, 1, 2, 0});
  EXPECT_DOUBLE_EQ(*count.of(0), 2.0 * 3 / (4 + 3));
  EXPECT_DOUBLE_EQ(*count.of(1), 2.0 * 2 / (3 + 3));
  EXPECT_DOUBLE_EQ(*count.of(2), 2.0 * 1 / (1 + 2));
  EXPECT_FALSE(count.of(3).has_value());
  EXPECT_DOUBLE_EQ(count.mean(1), (2.0 / 3 + 2.0 / 3) / 2);
}

TEST(Segmentation, APictureHasThreePartsSideBySide) {
  const BrainSlice slice{.number = 1, .pixels = {0, 1, 2, 3}, .regions = {0, 0, 0, 2}};
  const Picture picture = side_by_side(slice, {0, 2, 0, 0}, 2, 2);
  EXPECT_GT(picture.height(), 6) << "titles and a key stand below";
  const auto colour = [&](int column, int row, int part) {
    return picture.at(part * (2 + 6) * 3 + column * 3, row * 3);
  };
  EXPECT_EQ(colour(1, 1, 0).red, colour(1, 1, 0).green);  // slice: grey
  EXPECT_GT(colour(1, 1, 1).red, colour(1, 1, 1).green);  // truth: coloured
  EXPECT_EQ(colour(1, 1, 2).red, colour(1, 1, 2).green);  // prediction: grey here
  EXPECT_GT(colour(1, 0, 2).red, colour(1, 0, 2).green);
}

/// Trains on one device, until the model separates two regions that differ in brightness only.
TEST(Segmentation, AModelLearnsWhatBrightnessMeans) {
  UTransformerShape shape = test::kSmallUTransformer;
  shape.width = 8;
  shape.levels = shape.attended_skips = 1;
  const UTransformerGraph model = u_transformer_graph(shape, 1.0 / 128);
  CpuDevice device;
  const TrainingGraph training = differentiate(model.graph, model.loss);
  OneDeviceTrainer trainer(device, training, 1);
  BrainSlice slice;
  for (int i = 0; i < 64; ++i) {
    const bool bright = i % 8 > i / 8;
    slice.regions.push_back(bright ? 2 : 1);
    slice.pixels.push_back(bright ? 1.0f : -1.0f);
  }
  const auto feed = [&](int, Evaluation& evaluation) {
    for (std::size_t i = 0; i < 128; ++i) {
      evaluation.data<float>(model.pixels)[i] = slice.pixels[i % 64];
      evaluation.data<std::int32_t>(model.targets)[i] = slice.regions[i % 64];
      evaluation.data<float>(model.weights)[i] = 1;
    }
  };
  for (int step = 0; step < 40; ++step)
    trainer.step(1, feed, {.learning_rate = 1e-2, .weight_decay = 0}, 1.0);
  std::vector<ParameterState> parameters;
  for (const Parameter& parameter : training.graph.parameters()) {
    const Value& value = training.graph.value(parameter.value);
    const auto values = trainer.evaluation().data<float>(parameter.value);
    parameters.push_back({value.name, value.type.shape, {values.begin(), values.end()}, {}, {}});
  }
  EXPECT_EQ(segment(device, shape, views_of(parameters), {slice})[0], slice.regions);
  parameters.pop_back();
  EXPECT_THAT([&] { segment(device, shape, views_of(parameters), {slice}); },
              test::throws_error(ErrorCode::kIncompatible, "is missing, or has another shape"));
}

}  // namespace
}  // namespace weft::apps

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "apps/data/chosen_rows.h"
#include "apps/data/text_batches.h"
#include "apps/gpt/generate.h"
#include "apps/gpt/gpt_app.h"
#include "apps/gpt/text_loss.h"
#include "core/base/error.h"
#include "core/config/config_document.h"
#include "core/cpu/cpu_device.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;

class GptTrainingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream out(root_ / "text.txt");
    for (int i = 0; i < 2000; ++i) out << "line " << i * 7919 % 2000 << "\n";
  }

  std::string yaml(
      const std::string& model = "{layers: 2, width: 16, heads: 2, sequence: 8}") const {
    return "model: " + model + "\ndata: {text: " + (root_ / "text.txt").string() +
           ", tokenizer: bytes, cache: " + (root_ / "cache").string() +
           "}\nsample: {prompt: line, tokens: 5}\n";
  }
  const test::ScratchFolder scratch_;
  const fs::path& root_ = scratch_.path();
};

TEST_F(GptTrainingTest, TheAppReadsItsSectionsAndMakesItsModel) {
  const auto document = ConfigDocument::parse(yaml(), "c.yaml");
  GptApp app;
  const ModelDescription model =
      app.describe_model(document.root(), {.rows_per_microbatch = 3, .microbatches = 2}, 1);
  document.finish();
  EXPECT_EQ(model.graphs.train.graph.num_blocks(), 2);
  EXPECT_EQ(model.units_per_row, 8);
  EXPECT_EQ(model.graphs.train.graph.value(model.graphs.train.graph.inputs()[0].value).type.shape,
            (Shape{3, 8}));
  EXPECT_THAT(model.text, HasSubstr("2 layers"));
  EXPECT_THAT(model.text, HasSubstr("f32"));
}

TEST_F(GptTrainingTest, PrecisionIsF32OrBf16AndACheckpointFitsBoth) {
  std::vector<std::string> digests;
  for (const std::string precision : {"f32", "bf16"}) {
    const auto document = ConfigDocument::parse(
        yaml("{layers: 2, width: 16, heads: 2, sequence: 8, precision: " + precision + "}"),
        "c.yaml");
    GptApp app;
    const ModelDescription model =
        app.describe_model(document.root(), {.rows_per_microbatch = 3, .microbatches = 2}, 1);
    document.finish();
    EXPECT_THAT(model.text, HasSubstr(precision));
    for (const Parameter& parameter : model.graphs.train.graph.parameters())
      EXPECT_EQ(to_string(model.graphs.train.graph.value(parameter.value).type.dtype), precision);
    digests.push_back(app.prepare_data().digest);
  }
  EXPECT_EQ(digests[0], digests[1]);
  const auto document = ConfigDocument::parse(
      yaml("{layers: 2, width: 16, heads: 2, sequence: 8, precision: fp16}"), "c.yaml");
  GptApp app;
  EXPECT_THAT(
      [&] { app.describe_model(document.root(), {}, 1); },
      test::throws_error(ErrorCode::kInvalidConfig,
                         "c.yaml:1:65: model.precision: expected one of f32, bf16, found 'fp16'"));
}

TEST_F(GptTrainingTest, HeadsThatDoNotDivideTheWidthAreRefusedWithTheirPlace) {
  const auto document =
      ConfigDocument::parse(yaml("{layers: 2, width: 16, heads: 3, sequence: 8}"), "c.yaml");
  GptApp app;
  EXPECT_THAT([&] { app.describe_model(document.root(), {}, 1); },
              test::throws_error(ErrorCode::kInvalidConfig,
                                 "c.yaml:1:", "width 16 does not divide among 3 heads"));
}

TEST_F(GptTrainingTest, MistakesInTwoSectionsAreReportedTogether) {
  const auto document = ConfigDocument::parse(
      "model: {layers: 2, width: 16, heads: 2, sequence: 8, widht: 3}\ndata: {text: "
      "/nope}\nsample: {}\n",
      "c.yaml");
  GptApp app;
  document.try_section([&] { app.describe_model(document.root(), {}, 1); });
  const std::string message =
      test::error_message(ErrorCode::kInvalidConfig, [&] { document.finish(); });
  EXPECT_THAT(message, HasSubstr("did you mean 'width'"));
  EXPECT_THAT(message, HasSubstr("there is no text file /nope"));
  EXPECT_EQ(std::ranges::count(message, '\n'), 1) << message;
}

TEST_F(GptTrainingTest, EveryDeviceReadsJustItsRegionOfTheSameBatch) {
  const auto document = ConfigDocument::parse(yaml(), "c.yaml");
  GptApp app;
  app.describe_model(document.root(), {.rows_per_microbatch = 4, .microbatches = 3}, 5);
  const PreparedData data = app.prepare_data();
  EXPECT_GT(data.baseline.loss, 1.0);
  const auto whole = app.open_batches(data.batches);
  const auto part = app.open_batches(data.batches);
  const auto read = [](mesh::BatchSource& source, const char* input, mesh::Split split, int step,
                       int microbatch, Region region) {
    std::vector<std::int32_t> ids(region.num_elements());
    source.read(input, split, step, microbatch, 3, region, std::as_writable_bytes(std::span(ids)));
    return ids;
  };
  std::set<std::vector<std::int32_t>> distinct;
  for (const mesh::Split split : {mesh::Split::kTrain, mesh::Split::kValidation})
    for (int step = 1; step <= 3; ++step)
      for (int m = 0; m < 3; ++m) {
        const auto tokens = read(*whole, "tokens", split, step, m, Region::whole(Shape{4, 8}));
        const auto targets = read(*whole, "targets", split, step, m, Region::whole(Shape{4, 8}));
        distinct.insert(tokens);
        for (std::size_t row = 0; row < 4; ++row)
          for (std::size_t i = 0; i + 1 < 8; ++i)
            EXPECT_EQ(targets[row * 8 + i], tokens[row * 8 + i + 1]);
        const auto piece = read(*part, "targets", split, step, m, Region({{1, 3}, {2, 7}}));
        for (std::size_t row = 0; row < 2; ++row)
          for (std::size_t i = 0; i < 5; ++i)
            EXPECT_EQ(piece[row * 5 + i], targets[(row + 1) * 8 + 2 + i]);
      }
  EXPECT_EQ(distinct.size(), 18u);
}

TEST_F(GptTrainingTest, AnotherTextThanTheDriversIsRefused) {
  const auto document = ConfigDocument::parse(yaml(), "c.yaml");
  GptApp app;
  app.describe_model(document.root(), {.rows_per_microbatch = 1}, 5);
  TextBatchesRecipe recipe = decode<TextBatchesRecipe>(app.prepare_data().batches);
  recipe.folder = "/not/on/this/host";
  EXPECT_NO_THROW(TextBatches{recipe});  // makes the same data set from the same text
  std::ofstream(root_ / "text.txt", std::ios::app) << "and one line more\n";
  EXPECT_THAT([&] { const TextBatches batches(recipe); },
              test::throws_error(ErrorCode::kIncompatible, "on all hosts"));
}

TEST_F(GptTrainingTest, TrainsOnChosenPiecesAloneAndRefusesThoseOfOtherLengths) {
  const TextDataset dataset =
      TextDataset::prepare({.text = (root_ / "text.txt").string(),
                            .tokenizer = TextDataConfig::TokenizerKind::kBytes,
                            .vocabulary = 256,
                            .cache = (root_ / "cache").string()});
  const TokenWindows pieces(dataset.train, 8, 5);
  const std::vector<std::uint32_t> chosen = {3, 50, 51};
  ChosenRows::write(root_ / "chosen", chosen, pieces.num_disjoint_windows(),
                    pieces.windows_digest());
  const auto prepared = [&](GptApp& app, const std::string& sequence) {
    const auto document =
        ConfigDocument::parse("model: {layers: 1, width: 16, heads: 2, sequence: " + sequence +
                                  "}\ndata: {text: " + (root_ / "text.txt").string() +
                                  ", tokenizer: bytes, cache: " + (root_ / "cache").string() +
                                  ", subset: " + (root_ / "chosen").string() + "}\n",
                              "c.yaml");
    app.describe_model(document.root(), {.rows_per_microbatch = 4, .microbatches = 1}, 5);
    return app.prepare_data();
  };
  GptApp app;
  const PreparedData data = prepared(app, "8");
  EXPECT_THAT(data.text, HasSubstr(", in 3 of "));
  const auto batches = app.open_batches(data.batches);
  std::set<std::vector<std::int32_t>> drawn, expected;
  for (int step = 1; step <= 10; ++step) {
    std::vector<std::int32_t> ids(32);
    batches->read("tokens", mesh::Split::kTrain, step, 0, 1, Region::whole(Shape{4, 8}),
                  std::as_writable_bytes(std::span(ids)));
    for (int row = 0; row < 4; ++row)
      drawn.emplace(ids.begin() + row * 8, ids.begin() + row * 8 + 8);
  }
  for (const std::uint32_t piece : chosen) {
    std::vector<std::int32_t> ids(8);
    dataset.train.read(piece * std::size_t{8}, ids);
    expected.insert(ids);
  }
  EXPECT_EQ(drawn, expected);
  const Error other = test::error_of([&] { prepared(app, "16"); });
  EXPECT_EQ(other.code(), ErrorCode::kIncompatible);
  EXPECT_THAT(other.message(), HasSubstr("the text of this run in pieces of its sequence"));
}

TEST_F(GptTrainingTest, ScoresATextOfItsOwnAfterTheBestAndTheLastStep) {
  std::string text;
  for (int i = 0; i < 57; ++i) text += "line " + std::to_string(i) + "\n";
  std::ofstream(root_ / "test.txt") << text;
  const auto prepared = [&](GptApp& app, const std::string& sequence) {
    const auto document = ConfigDocument::parse(
        "model: {layers: 1, width: 16, heads: 2, sequence: " + sequence +
            "}\ndata: {text: " + (root_ / "text.txt").string() +
            ", tokenizer: bytes, test: " + (root_ / "test.txt").string() +
            ", cache: " + (root_ / "cache").string() + "}\nsample: {tokens: 0}\n",
        "c.yaml");
    const ModelDescription model =
        app.describe_model(document.root(), {.rows_per_microbatch = 4}, 1);
    document.finish();
    return std::pair(model, app.prepare_data());
  };
  GptApp app;
  const auto [model, data] = prepared(app, "8");
  // The best parameters are all zero: every byte is equally likely.
  std::vector<ParameterState> zeros, last;
  for (const Parameter& parameter : model.graphs.validate.parameters()) {
    const Value& value = model.graphs.validate.value(parameter.value);
    std::vector<float> values(value.type.elements());
    zeros.push_back({.name = value.name, .shape = value.type.shape, .values = values});
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = 0.3f * std::sin(float(k + 1));
    last.push_back({.name = value.name, .shape = value.type.shape, .values = values});
  }
  CpuDevice device;
  const std::vector<TensorView> best_views = views_of(zeros), last_views = views_of(last);
  const TrainedValues trained{
      .parameters = last_views, .step = 9, .best = &best_views, .best_step = 4};
  const FinalReport report = data.report_on_model({device, trained, root_});
  ASSERT_EQ(report.figures.size(), 2U);
  EXPECT_EQ(report.figures[0].first, "test_loss_at_best_step");
  EXPECT_NEAR(report.figures[0].second, std::log(256.0), 1e-5);
  EXPECT_EQ(report.figures[1].first, "test_loss_at_last_step");
  EXPECT_THAT(report.text, HasSubstr("after step 4, the best one"));

  // The same loss, computed one window at a time.
  const std::vector<std::int32_t> tokens = byte_tokenizer()->encode(text);
  const GptShape shape{
      .layers = 1, .width = 16, .heads = 2, .sequence = 8, .batch = 4, .vocabulary = 256};
  double sum = 0;
  const std::size_t windows = (tokens.size() - 1) / 8;
  EXPECT_NE(windows % 16, 0U);
  for (std::size_t i = 0; i < windows; ++i)
    sum += text_loss(device, shape, last_views, std::span(tokens).subspan(8 * i, 9));
  EXPECT_NEAR(report.figures[1].second, sum / windows, 1e-5);

  const Error shorter = test::error_of([&] { prepared(app, "4096"); });
  EXPECT_THAT(shorter.message(), HasSubstr("model.sequence + 1 = 4097"));
}

TEST(Draw, FollowsTheProbabilities) {
  const std::vector<float> logits = {0.0f, std::log(3.0f), std::log(4.0f), -50.0f};
  EXPECT_EQ(sample_token(logits, 0, 0, 0.9), 2);
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < 8000; ++i) ++counts[sample_token(logits, 1.0, 0, (i + 0.5) / 8000)];
  EXPECT_NEAR(counts[0], 1000, 2);
  EXPECT_NEAR(counts[1], 3000, 2);
  EXPECT_NEAR(counts[2], 4000, 2);
  counts.clear();
  for (int i = 0; i < 700; ++i) ++counts[sample_token(logits, 1.0, 2, (i + 0.5) / 700)];
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_NEAR(counts[1], 300, 2);
}

TEST(Generate, ContinuesThePromptDeterministicallyBeyondTheWindow) {
  const GptShape shape{
      .layers = 1, .width = 16, .heads = 2, .sequence = 8, .batch = 4, .vocabulary = 256};
  const Graph graph = gpt_graph(shape, 1.0).graph;
  std::vector<ParameterState> parameters;
  for (std::size_t i = 0; i < graph.parameters().size(); ++i) {
    const Value& value = graph.value(graph.parameters()[i].value);
    std::vector<float> values(value.type.elements());
    for (std::size_t k = 0; k < values.size(); ++k)
      values[k] = 0.3f * std::sin(static_cast<float>(k * (i + 1)));
    parameters.push_back({.name = value.name, .shape = value.type.shape, .values = values});
  }
  CpuDevice device;
  const auto tokenizer = byte_tokenizer();
  const SampleConfig sample{.prompt = "abc", .tokens = 30, .temperature = 1.0};
  const std::string text = generate(device, shape, views_of(parameters), *tokenizer, sample, 1);
  EXPECT_EQ(text.size(), 33u);
  EXPECT_TRUE(text.starts_with("abc"));
  EXPECT_EQ(generate(device, shape, views_of(parameters), *tokenizer, sample, 1), text);
  EXPECT_NE(generate(device, shape, views_of(parameters), *tokenizer, sample, 2), text);
  parameters.pop_back();
  EXPECT_THAT([&] { generate(device, shape, views_of(parameters), *tokenizer, sample, 1); },
              test::throws_error(ErrorCode::kIncompatible, "is missing, or has another shape"));
}

}  // namespace
}  // namespace weft::apps

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/classification/image_batches.h"
#include "apps/classifier/classifier_app.h"
#include "apps/classifier/scores.h"
#include "apps/run_files/metrics.h"
#include "apps/train/run_config.h"
#include "apps/train/training_loop.h"
#include "core/cpu/cpu_device.h"
#include "mesh/runtime/in_process_training.h"
#include "tests/support/image_files.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kMlp = "{kind: mlp, hidden: [16]}";
constexpr const char* kCnn = "{kind: cnn, channels: [4, 8], hidden: [16]}";

/// Synthetic pictures, and runs with all devices in this process.
class ClassifierTest : public ::testing::Test {
 protected:
  ClassifierTest() { test::write_made_up_dataset(root_ / "idx", 300, 60); }

  std::string sections(const std::string& model) const {
    return fmt::format("model: {}\ndata: {{files: {}, validation_fraction: 0.2}}\n", model,
                       (root_ / "idx").string());
  }
  /// Returns a run file with two meshes, of `front` and `back` layers. The first mesh has two
  /// devices, data-parallel or tensor-parallel.
  std::string run_file(const std::string& model, int front, int back, int steps,
                       bool tensor = false) const {
    return fmt::format(
               "name: tiny\napp: classifier\n"
               "cluster: {{launcher: local, hosts: [{{name: a, devices: 2}}, {{name: b, devices: "
               "1}}]}}\n"
               "meshes:\n  front: {{hosts: [a], shape: {{data: {}, tensor: {}}}}}\n"
               "  back: {{hosts: [b], shape: {{data: 1, tensor: 1}}}}\n"
               "sharding: {{batch: data, inner: tensor}}\n"
               "pipeline: {{stages: [{{mesh: front, layers: {}}}, {{mesh: back, layers: {}}}], "
               "schedule: 1f1b, microbatches: 2}}\n"
               "training: {{steps: {}, batch: 16, learning_rate: 1e-2, warmup_steps: 1, "
               "validate_every: 10, validation_batches: 4}}\n"
               "checkpoint: {{every: 0, best: true}}\n",
               tensor ? 1 : 2, tensor ? 2 : 1, front, back, steps) +
           sections(model);
  }

  RunSummary train_in(const fs::path& path, const std::string& yaml) {
    ClassifierApp app;
    const SteadyClock clock;
    const PlannedRun planned = plan_run(ConfigDocument::parse(yaml, "run.yaml"), app);
    const RunConfig& config = planned.config;
    const PreparedData data = app.prepare_data();
    const auto batches = app.open_batches(data.batches);
    mesh::InProcessTraining engine(planned.plan, *batches, config.seed);
    const RunDirectory directory = RunDirectory::prepare(path);
    const TrainingRun run{
        .name = config.name,
        .app = app.name(),
        .training = config.training,
        .checkpoint = config.checkpoint,
        .units_per_step = config.training.batch,
        .unit = config.model.unit,
        .model_digest = data.digest,
        .baseline = data.baseline,
        .subtitle = "",
        .report_on_model = [&](const TrainedValues& trained, const fs::path& folder) {
          CpuDevice device;
          return data.report_on_model({device, trained, folder});
        }};
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> screen(std::tmpfile(), std::fclose);
    return train(
        run, engine,
        {.directory = directory, .screen = {.out = screen.get()}, .clock = clock, .stop = {}});
  }
  std::string refusal(const std::string& yaml) {
    const auto document = ConfigDocument::parse(yaml, "c.yaml");
    ClassifierApp app;
    document.try_section([&] { app.describe_model(document.root(), {}, 1); });
    return test::error_of([&] { document.finish(); }).message();
  }

  const test::ScratchFolder scratch_;
  const fs::path& root_ = scratch_.path();
};

TEST_F(ClassifierTest, LearnsInTwoStagesAndReportsTheTestAtTheBestAndAtTheLastStep) {
  const RunSummary summary = train_in(root_ / "run", run_file(kMlp, 1, 1, 60));
  std::map<std::string, double> figures(summary.report.figures.begin(),
                                        summary.report.figures.end());
  EXPECT_GT(figures.at("test_accuracy_at_last_step"), 0.9);
  EXPECT_GT(figures.at("test_accuracy_at_best_step"), 0.9);
  EXPECT_LT(figures.at("test_loss_at_best_step"), 0.5);
  EXPECT_LT(*summary.best_validation_loss, 0.5);
  EXPECT_EQ(summary.unit, "pictures");
  EXPECT_THAT(summary.report.text,
              AllOf(HasSubstr("best step"), HasSubstr("last step"), HasSubstr("ankle boot")));
  EXPECT_TRUE(fs::exists(root_ / "run/wrong.png"));
  EXPECT_TRUE(fs::exists(root_ / "run/confusion.json"));
  // The reported loss is the lowest one of the run's own validations.
  double least = 1e9;
  for (const StepMetrics& m : read_metrics(root_ / "run/metrics.jsonl"))
    least = std::min(least, m.validation_loss.value_or(least));
  EXPECT_EQ(least, *summary.best_validation_loss);
}

TEST_F(ClassifierTest, ACnnLearnsToo) {
  const RunSummary summary = train_in(root_ / "run", run_file(kCnn, 2, 2, 60));
  std::map<std::string, double> figures(summary.report.figures.begin(),
                                        summary.report.figures.end());
  EXPECT_GT(figures.at("test_accuracy_at_last_step"), 0.9);
}

TEST_F(ClassifierTest, LossesAreTheSameWithDataAndWithTensorParallelism) {
  for (const char* model :
       {"{kind: mlp, hidden: [16, 8]}", "{kind: cnn, channels: [4], hidden: [8]}"}) {
    std::vector<std::vector<StepMetrics>> steps;
    for (const bool tensor : {false, true}) {
      const fs::path path = root_ / (tensor ? "tensor" : "data");
      train_in(path, run_file(model, 2, 1, 12, tensor));
      steps.push_back(read_metrics(path / "metrics.jsonl"));
    }
    for (std::size_t i = 0; i < steps[0].size(); ++i)
      EXPECT_NEAR(steps[0][i].loss, steps[1][i].loss, 2e-4 * steps[0][i].loss) << model << i;
  }
}

TEST_F(ClassifierTest, EveryDeviceReadsJustItsRegionOfTheSameBatch) {
  for (const char* model : {kMlp, kCnn}) {
    const auto document = ConfigDocument::parse(sections(model), "c.yaml");
    ClassifierApp app;
    const ModelDescription description =
        app.describe_model(document.root(), {.rows_per_microbatch = 4, .microbatches = 3}, 5);
    const Graph& graph = description.graphs.train.graph;
    const Shape pixels = graph.value(graph.inputs()[0].value).type.shape;
    const Shape targets = graph.value(graph.inputs()[1].value).type.shape;
    const PreparedData data = app.prepare_data();
    EXPECT_NEAR(data.baseline.loss, std::log(10.0), 0.1);
    const auto whole = app.open_batches(data.batches), part = app.open_batches(data.batches);
    const auto read = [](mesh::BatchSource& source, const char* input, mesh::Split split,
                         const Region& region) {
      std::vector<float> values(region.num_elements());
      source.read(input, split, 2, 1, 3, region, std::as_writable_bytes(std::span(values)));
      return values;
    };
    for (const mesh::Split split : {mesh::Split::kTrain, mesh::Split::kValidation}) {
      const auto all = read(*whole, "pixels", split, Region::whole(pixels));
      std::vector<Interval> box{{1, 3}};
      for (std::size_t d = 1; d < pixels.size(); ++d) box.push_back({0, pixels[d]});
      box[1] = {pixels[1] / 2, pixels[1]};
      const auto some = read(*part, "pixels", split, Region(box));
      ASSERT_EQ(some.size(), 784u);
      for (std::size_t i = 0; i < 784; ++i)
        ASSERT_EQ(some[i], all[784 * (1 + i / 392) + 392 + i % 392]) << model << i;
      const auto labels = read(*whole, "targets", split, Region::whole(targets));
      box.assign(targets.size(), {0, 1});
      box[0] = {3, 4};
      EXPECT_EQ(read(*part, "targets", split, Region(box))[0], labels[3]);
    }
  }
}

TEST_F(ClassifierTest, OtherPicturesThanTheDriversAreRefused) {
  const auto document = ConfigDocument::parse(sections(kMlp), "c.yaml");
  ClassifierApp app;
  app.describe_model(document.root(), {}, 1);
  const PreparedData data = app.prepare_data();
  test::write_made_up_dataset(root_ / "idx", 301, 60);
  const Error error = test::error_of([&] { app.open_batches(data.batches); });
  EXPECT_EQ(error.code(), ErrorCode::kIncompatible);
  EXPECT_THAT(error.message(), HasSubstr("on all hosts"));
}

TEST_F(ClassifierTest, TrainsOnChosenRowsAloneAndRefusesThoseOfOtherPictures) {
  ImageDataConfig data = default_image_data();
  data.files = (root_ / "idx").string();
  data.validation_fraction = 0.2;
  const ImageDataset whole = ImageDataset::load(data);
  std::vector<std::uint32_t> zeros;  // rows with label 3
  for (std::size_t row = 0; row < whole.train.size(); ++row)
    if (whole.train.labels[row] == 3) zeros.push_back(row);
  ChosenRows::write(root_ / "chosen", zeros, whole.train.size(), whole.digest);
  const auto prepared = [&](const std::string& seed) {
    const auto document = ConfigDocument::parse(
        fmt::format(
            "model: {}\ndata: {{files: {}, validation_fraction: 0.2, seed: {}, subset: {}}}\n",
            kMlp, (root_ / "idx").string(), seed, (root_ / "chosen").string()),
        "c.yaml");
    ClassifierApp app;
    app.describe_model(document.root(), {.rows_per_microbatch = 8, .microbatches = 1}, 1);
    return app.prepare_data();
  };
  const PreparedData chosen = prepared("1");
  EXPECT_THAT(chosen.text,
              HasSubstr(fmt::format("of which {} are drawn (those in ", zeros.size())));
  ClassifierApp app;
  const auto batches = app.open_batches(chosen.batches);
  std::vector<std::int32_t> labels(8);
  batches->read("targets", mesh::Split::kTrain, 1, 0, 1, Region({{0, 8}}),
                std::as_writable_bytes(std::span(labels)));
  EXPECT_THAT(labels, ::testing::Each(3));
  // Another seed splits the data differently: the same numbers name other rows.
  EXPECT_THAT(test::error_of([&] { prepared("2"); }).message(),
              HasSubstr("were chosen from other data"));
  ChosenRows::write(root_ / "chosen", std::vector<std::uint32_t>{1}, whole.train.size(),
                    whole.digest);
  EXPECT_NE(prepared("1").digest, chosen.digest) << "a run on other rows cannot be resumed";
  EXPECT_THAT(test::error_of([&] { app.open_batches(chosen.batches); }).message(),
              HasSubstr("are not the driver's"));
}

TEST_F(ClassifierTest, MistakesAreReportedWithTheirPlace) {
  EXPECT_THAT(refusal("model: {kind: svm}\n"), HasSubstr("expected one of mlp, cnn"));
  EXPECT_THAT(refusal("model: {kind: cnn}\n"), HasSubstr("channels"));
  EXPECT_THAT(refusal("model: {kind: mlp, channels: [3]}\n"), HasSubstr("channels"));
  EXPECT_THAT(refusal("model: {hidden: []}\ndata: {height: 3}\n"),
              AllOf(HasSubstr("model.hidden: expected a list of sizes"), HasSubstr("height")));
  EXPECT_THAT(refusal("model: {}\ndata: {validation_fraction: 0}\n"),
              HasSubstr("nothing is held out to validate on"));
}

TEST(WrongPictures, ShowTheSurestMistakesOfEachLabel) {
  LabelledImages images{.height = 28, .width = 28};
  for (const std::uint8_t grey : {50, 100, 150})
    images.append(std::vector<std::uint8_t>(784, grey), 1);
  Scores scores;
  scores.predicted_labels = {0, 1, 0};
  scores.predicted_probabilities = {0.6, 0.9, 0.8};
  scores.confusion = {{0, 0}, {2, 1}};
  const Picture picture = misclassified_pictures(images, scores, {"bag", "coat"});
  // Second row of the picture: a line with the label, then two pictures of 56 x 56 with the
  // predicted labels.
  const int top = 80;
  EXPECT_EQ(picture.at(0, 10), Colour{}) << "no bag was called otherwise";
  EXPECT_EQ(picture.at(0, top + 10), (Colour{150, 150, 150}));
  EXPECT_EQ(picture.at(60, top + 10), (Colour{50, 50, 50}));
  EXPECT_EQ(picture.at(120, top + 10), Colour{});
  const auto is_written_on = [&](int x, int y, int width) {
    for (int dx = 0; dx < width; ++dx)
      for (int dy = 0; dy < 8; ++dy)
        if (picture.at(x + dx, y + dy) != Colour{}) return true;
    return false;
  };
  EXPECT_TRUE(is_written_on(0, 0, 60)) << "bag";
  EXPECT_TRUE(is_written_on(0, top, 60)) << "coat";
  EXPECT_TRUE(is_written_on(60, top + 67, 20)) << "was called a bag";
  EXPECT_FALSE(is_written_on(120, top + 67, 50));
  EXPECT_THAT(confusion_table({"bag", "coat"}, scores), HasSubstr("33.3 %  bag 66.7 %"));
}

TEST_F(ClassifierTest, PicturesOfWhichNoneIsHeldOutAreRefusedBeforeAnythingStarts) {
  test::write_made_up_folder(root_ / "few", 4);
  const std::string data =
      fmt::format("model: {}\ndata: {{path: {}, height: 4, width: 6, validation_fraction: 0.01}}\n",
                  kMlp, (root_ / "few").string());
  EXPECT_THAT(refusal(data),
              AllOf(HasSubstr("c.yaml:2:"), HasSubstr("none of the 8 pictures"),
                    HasSubstr("data.validation_fraction"), HasSubstr("validate_every: 0")));
  const auto document =
      ConfigDocument::parse(data + "training: {steps: 2, batch: 2, validate_every: 0}\n", "c.yaml");
  ClassifierApp app;
  EXPECT_NO_THROW(app.describe_model(document.root(), {}, 1));
}

}  // namespace
}  // namespace weft::apps

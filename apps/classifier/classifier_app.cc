#include "apps/classifier/classifier_app.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/classification/image_batches.h"
#include "apps/classification/image_folder.h"
#include "apps/classifier/classifier_config.h"
#include "apps/classifier/scores.h"
#include "apps/run_files/progress_display.h"
#include "apps/train/app_sections.h"
#include "apps/train/training_config.h"
#include "core/autodiff/differentiate.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace {

/// Returns "Fashion-MNIST", or the folder's path.
std::string name_of(const ImageDataConfig& data) {
  return data.path.empty() ? "Fashion-MNIST" : data.path;
}

/// Returns the number of pictures in the folder. Null for a data set, or if the folder cannot be
/// listed; prepare_data() reports the reason.
std::optional<std::size_t> pictures_of(const ImageDataConfig& data) {
  try {
    if (!data.path.empty()) return pictures_of_folder(data.path).size();
  } catch (const Error&) {
  }
  return std::nullopt;
}

/// Fails if no row is held out although validation is on, or if no row is left to train on.
void check_validation(const ConfigNode& root, const ImageDataConfig& data) {
  std::int64_t every = TrainingConfig{}.validate_every;
  const auto training = root.find("training");
  const auto given = training && training->kind() == ConfigNode::Kind::kMap
                         ? training->find("validate_every")
                         : std::nullopt;
  if (given) every = given->as<std::int64_t>();
  if (data.validation_fraction == 0 && every != 0)
    root.at("data").fail(
        "data.validation_fraction is 0, so nothing is held out to validate on: raise it, or set "
        "training.validate_every: 0");
  const std::optional<std::size_t> pictures = pictures_of(data);
  if (!pictures) return;
  const ImageParts parts = image_parts(data, *pictures);
  if (parts.validation == 0 && every != 0)
    root.at("data").fail(
        fmt::format("data: none of the {} pictures of {} is held out to validate on: raise "
                    "data.validation_fraction, add pictures, or set training.validate_every: 0",
                    *pictures, data.path));
  if (parts.train == 0)
    root.at("data").fail(
        fmt::format("data: all {} pictures of {} are held out: add some, or lower "
                    "data.validation_fraction",
                    *pictures, data.path));
}

std::string model_text(const ClassifierShape& shape) {
  std::string layers;
  if (!shape.channels.empty())
    layers = fmt::format("{} channels, ", fmt::join(shape.channels, "-"));
  return fmt::format("{}: {} x {} pixels, {}hidden {}, {} classes",
                     shape.kind == ClassifierShape::Kind::kMlp ? "MLP" : "CNN", shape.height,
                     shape.width, layers, fmt::join(shape.hidden, "-"), shape.classes);
}

/// Builder of the final report: the quality of parameters on pictures that were not trained on.
class ClassifierReportBuilder {
 public:
  ClassifierReportBuilder(const ClassifierShape& shape, const ImageDataset& dataset,
                          const ReportRequest& request)
      : shape_(shape), dataset_(dataset), request_(request) {
    text_ = fmt::format("{:<16}{:>10}{:>10}{:>10}\n", "", "step", "loss", "right");
  }

  /// Adds the scores of a step's parameters. `when` is "best" or "last". Returns the scores on the
  /// test pictures, or on the validation pictures if there is no test part.
  std::optional<Scores> add(const std::vector<TensorView>& parameters, std::int64_t step,
                            const std::string& when) {
    std::optional<Scores> shown;
    for (const auto& [part, images] :
         {std::pair<std::string, const LabelledImages&>("validation", dataset_.validation),
          std::pair<std::string, const LabelledImages&>("test", dataset_.test)}) {
      auto scores =
          score(request_.device, shape_, dataset_.scale, parameters, images, request_.stop);
      if (!scores) continue;
      text_ += fmt::format("{:<16}{:>10}{:>10.3f}{:>8.2f} %  {} step\n", part, with_thousands(step),
                           scores->loss, 100 * scores->accuracy, when);
      figures_.emplace_back(fmt::format("{}_loss_at_{}_step", part, when), scores->loss);
      figures_.emplace_back(fmt::format("{}_accuracy_at_{}_step", part, when), scores->accuracy);
      shown = std::move(scores);
    }
    return shown;
  }

  FinalReport report(const Scores& scores, const std::string& when) {
    const bool tested = dataset_.test.size() > 0;
    const LabelledImages& images = tested ? dataset_.test : dataset_.validation;
    write_png(misclassified_pictures(images, scores, dataset_.classes),
              request_.folder / "wrong.png");
    nlohmann::ordered_json json = {{"pictures", tested ? "test" : "validation"},
                                   {"step", when},
                                   {"classes", dataset_.classes},
                                   {"confusion", scores.confusion}};
    write_atomically(request_.folder / "confusion.json", json.dump() + "\n", 0666);
    return {.title = "on pictures that it was not trained with",
            .text = text_ + "\n" + confusion_table(dataset_.classes, scores),
            .prose = false,
            .files = {{"wrong.png", "a row for each label: pictures that were called otherwise"},
                      {"confusion.json", "confusion matrix: true label by predicted label"}},
            .figures = figures_};
  }

 private:
  const ClassifierShape& shape_;
  const ImageDataset& dataset_;
  const ReportRequest& request_;
  std::string text_;
  std::vector<std::pair<std::string, double>> figures_;
};

FinalReport make_report(const ClassifierShape& shape, const ImageDataset& dataset,
                        const ReportRequest& request) {
  ClassifierReportBuilder builder(shape, dataset, request);
  const TrainedValues& trained = request.trained;
  std::optional<Scores> best;
  if (trained.best != nullptr) best = builder.add(*trained.best, trained.best_step, "best");
  const std::optional<Scores> last = builder.add(trained.parameters, trained.step, "last");
  if (!last) return {};
  return best ? builder.report(*best, "best") : builder.report(*last, "last");
}

}  // namespace

ModelDescription ClassifierApp::describe_model(const ConfigNode& root, const BatchShape& batch,
                                               std::uint64_t seed) {
  seed_ = seed;
  AppSections sections(root);
  sections.read("model", [&] {
    shape_ = parse_classifier(root.at("model", "Kind and sizes of the classifier"));
  });
  sections.read("data", [&] {
    const auto data = root.find("data", "The pictures to train on");
    if (!data) return;
    data_ = parse_image_data(*data);
    check_validation(root, data_);
  });
  sections.finish();
  shape_.batch = batch.rows_per_microbatch;
  shape_.height = data_.height;
  shape_.width = data_.width;
  shape_.colours = data_.colours;
  shape_.classes = data_.classes.size();
  const ClassifierGraph model = classifier_graph(shape_, 1.0 / (batch.microbatches * shape_.batch));
  return {
      .graphs = {differentiate(model.graph, model.loss), model.graph, model.loss},
      .text = fmt::format("{}, {:.2f} M parameters, {}", model_text(shape_),
                          model.graph.num_parameter_elements() * 1e-6, to_string(shape_.precision)),
      .data = fmt::format("{}, {} labels", name_of(data_), data_.classes.size()),
      .units_per_row = 1,
      .unit = "pictures"};
}

PreparedData ClassifierApp::prepare_data() {
  // Shared with the callback that evaluates the model after training.
  const auto dataset = std::make_shared<const ImageDataset>(ImageDataset::load(data_));
  const RowSampler sampler = dataset->sampler(data_.subset, seed_);
  const ImageBatchesRecipe recipe{.data = data_,
                                  .rows_per_microbatch = shape_.batch,
                                  .seed = seed_,
                                  .digest = dataset->digest,
                                  .subset_digest = sampler.subset_digest()};
  const std::string what = fmt::format("classifier|{}|{}|{}|{}|{}",
                                       shape_.kind == ClassifierShape::Kind::kMlp ? "mlp" : "cnn",
                                       fmt::join(shape_.channels, ","),
                                       fmt::join(shape_.hidden, ","), dataset->digest, seed_) +
                           (data_.subset.is_all() ? "" : "|" + sampler.subset_digest());
  const std::string chosen = data_.subset.is_all() ? ""
                                                   : fmt::format(", of which {} are drawn ({})",
                                                                 with_thousands(sampler.size()),
                                                                 data_.subset.description());
  return {
      .text = fmt::format("{}: {} pictures to train on{}, {} to validate, {} to test; {} labels",
                          name_of(data_), with_thousands(dataset->train.size()), chosen,
                          with_thousands(dataset->validation.size()),
                          with_thousands(dataset->test.size()), dataset->classes.size()),
      .batches = encode(recipe),
      .digest = sha256(std::as_bytes(std::span(what))),
      .baseline = {dataset->class_prior_loss(), "guessing by frequency"},
      .report_on_model = [shape = shape_, dataset](const ReportRequest& request) {
        return make_report(shape, *dataset, request);
      }};
}

std::unique_ptr<mesh::BatchSource> ClassifierApp::open_batches(
    std::span<const std::byte> batches) const {
  return std::make_unique<ImageBatches>(decode<ImageBatchesRecipe>(batches));
}

}  // namespace weft::apps

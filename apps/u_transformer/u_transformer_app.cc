#include "apps/u_transformer/u_transformer_app.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/data/brain_batches.h"
#include "apps/train/app_sections.h"
#include "apps/u_transformer/segmentation.h"
#include "apps/u_transformer/u_transformer_config.h"
#include "core/autodiff/differentiate.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace {

// First region that the atlas names. The two before it are background.
constexpr std::size_t kFirstNamed = 2;

struct DiceComparison {
  DiceScore model{kBrainRegions.size()}, usual{kBrainRegions.size()}, nearest{kBrainRegions.size()};
};

std::string table(const DiceComparison& scores, std::size_t slices) {
  const auto cell = [](std::optional<double> dice) {
    return dice ? fmt::format("{:>10.3f}", *dice) : fmt::format("{:>10}", "-");
  };
  std::string text =
      fmt::format("{:<16}{:>10}{:>10}{:>10}\n", fmt::format("Dice, {} slices", slices), "model",
                  "usual", "nearest");
  for (std::size_t region = 0; region < kBrainRegions.size(); ++region) {
    text += fmt::format("{:<16}{}{}{}\n", kBrainRegions[region], cell(scores.model.of(region)),
                        cell(scores.usual.of(region)), cell(scores.nearest.of(region)));
  }
  text += fmt::format("{:<16}{}{}{}\n", "mean of lobes", cell(scores.model.mean(kFirstNamed)),
                      cell(scores.usual.mean(kFirstNamed)), cell(scores.nearest.mean(kFirstNamed)));
  return text +
         "usual: the region that is most frequent at a pixel in the training slices; nearest: the "
         "regions of the nearest "
         "training slice";
}

void write_scores(const DiceComparison& scores, const std::filesystem::path& path) {
  nlohmann::ordered_json json;
  const auto all = [&](const DiceScore& count) {
    nlohmann::ordered_json values;
    for (std::size_t region = 0; region < kBrainRegions.size(); ++region) {
      const auto dice = count.of(region);
      values[std::string(kBrainRegions[region])] =
          dice ? nlohmann::ordered_json(*dice) : nlohmann::ordered_json();
    }
    values["mean of lobes"] = count.mean(kFirstNamed);
    return values;
  };
  json["model"] = all(scores.model);
  json["usual"] = all(scores.usual);
  json["nearest"] = all(scores.nearest);
  write_atomically(path, json.dump(2) + "\n", 0666);
}

/// Scores the held-out slices and writes a picture of each into `folder`.
FinalReport make_report(const UTransformerShape& shape, const BrainDataset& dataset,
                        const ReportRequest& request) {
  const std::vector<Segmentation> seen =
      segment(request.device, shape, request.trained.parameters, dataset.held_out, request.stop);
  const Segmentation usual = dataset.most_frequent_regions();
  make_folders(request.folder / "pictures", "choose another folder with --out");
  DiceComparison scores;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const BrainSlice& slice = dataset.held_out[i];
    scores.model.add(slice.regions, seen[i]);
    scores.usual.add(slice.regions, usual);
    scores.nearest.add(slice.regions, dataset.nearest_training_slice(slice).regions);
    write_png(side_by_side(slice, seen[i], dataset.height, dataset.width),
              request.folder / "pictures" / fmt::format("slice-{:03}.png", slice.number));
  }
  write_scores(scores, request.folder / "dice.json");
  return {
      .title = "the regions of the held-out slices",
      .text = table(scores, seen.size()),
      .prose = false,
      .files = {{"pictures/", "every held-out slice: as measured, its true regions, the model's"},
                {"dice.json", "the table above"}}};
}

}  // namespace

ModelDescription UTransformerApp::describe_model(const ConfigNode& root, const BatchShape& batch,
                                                 std::uint64_t seed) {
  seed_ = seed;
  AppSections sections(root);
  sections.read("model", [&] {
    shape_ = parse_u_transformer(root.at("model", "Sizes of the U-Transformer"));
  });
  sections.read("data", [&] {
    if (const auto data = root.find("data", "The slices to train on"))
      data_ = parse_brain_data(*data);
  });
  sections.finish();
  shape_.batch = batch.rows_per_microbatch;
  shape_.classes = kBrainRegions.size();
  const double pixels = batch.microbatches * shape_.batch * shape_.height * shape_.width;
  const UTransformerGraph model = u_transformer_graph(shape_, 1.0 / pixels);
  return {
      .graphs = {differentiate(model.graph, model.loss), model.graph, model.loss},
      .text = fmt::format("U-Transformer: {} levels from {} channels, {} x {} pixels, {} of {} "
                          "skips attended, {:.2f} M parameters, {}",
                          shape_.levels, shape_.channels, shape_.height, shape_.width,
                          shape_.attended_skips, shape_.levels,
                          model.graph.num_parameter_elements() * 1e-6, to_string(shape_.precision)),
      .data = fmt::format("slices of the heads in {}", data_.templates),
      .units_per_row = 1,
      .unit = "slices"};
}

PreparedData UTransformerApp::prepare_data() {
  // Shared with the final report.
  const auto dataset =
      std::make_shared<const BrainDataset>(BrainDataset::load(data_, shape_.height, shape_.width));
  const BrainBatchesRecipe recipe{.data = data_,
                                  .height = dataset->height,
                                  .width = dataset->width,
                                  .rows_per_microbatch = shape_.batch,
                                  .seed = seed_,
                                  .digest = dataset->digest};
  const std::string what =
      fmt::format("u_transformer|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", shape_.height, shape_.width,
                  shape_.levels, shape_.channels, shape_.group_size, shape_.head_dim,
                  shape_.attended_skips, dataset->digest, data_.augment, seed_);
  return {.text = fmt::format("a head of mricron-data: {} slices to train on, {} held out in {} "
                              "slabs of {}; {} regions",
                              dataset->train.size(), dataset->held_out.size(), data_.slabs,
                              data_.slab, kBrainRegions.size()),
          .batches = encode(recipe),
          .digest = sha256(std::as_bytes(std::span(what))),
          .baseline = {dataset->class_prior_loss(), "guessing by frequency"},
          .report_on_model = [shape = shape_, dataset](const ReportRequest& request) {
            return make_report(shape, *dataset, request);
          }};
}

std::unique_ptr<mesh::BatchSource> UTransformerApp::open_batches(
    std::span<const std::byte> batches) const {
  return std::make_unique<BrainBatches>(decode<BrainBatchesRecipe>(batches));
}

}  // namespace weft::apps

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "apps/classification/image_dataset.h"
#include "apps/classification/image_folder.h"
#include "apps/data/png_reader.h"
#include "apps/data/text_files.h"
#include "apps/select_input/internal/preparation.h"
#include "apps/select_input/pixel_projection.h"
#include "apps/selection/npy_file.h"
#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kPicturesPerProgress = 64;

std::vector<fs::path> files_of(const SelectInput& input, const ImageDataConfig& data) {
  if (input.path != "fashion-mnist") return files_in(data.path);
  if (!fs::is_directory(data.files)) ImageDataset::load(data);  // says what to install
  return files_in(data.files);
}

bool wants_margin(const SelectInput& input) {
  return input.utility.empty() || input.utility == "margin";
}

std::string section_of(const ImageDataConfig& data) {
  const std::string rest =
      fmt::format("validation_fraction: {}, seed: {}", data.validation_fraction, data.seed);
  if (data.path.empty()) return fmt::format("{{dataset: {}, {}}}", data.dataset, rest);
  return fmt::format("{{path: {}, height: {}, width: {}, colours: {}, test_fraction: {}, {}}}",
                     data.path, data.height, data.width, data.colours == 3 ? "rgb" : "grey",
                     data.test_fraction, rest);
}

void append_places(Preparation& preparation, const ImageDataConfig& config,
                   const ImageDataset& data) {
  const bool is_folder = !config.path.empty();
  const std::vector<fs::path> files =
      is_folder ? pictures_of_folder(config.path)
                : std::vector{fs::path(config.files) / "train-images-idx3-ubyte.gz"};
  for (std::size_t row = 0; row < data.train.size(); ++row) {
    const std::uint32_t picture = data.train_pictures[row];
    RowOrigin place{.path = files[is_folder ? picture : 0].string(),
                    .label = data.classes[data.train.labels[row]]};
    if (!is_folder) place.offset = picture;
    preparation.append_place(place);
  }
}

/// Prepares labelled pictures: features and margins of a coarse model.
void prepare_labelled(Preparation& preparation, const ImageDataConfig& config) {
  const SelectInput& input = preparation.input;
  preparation.report_progress("read pictures", 0, 1);
  const ImageDataset data = ImageDataset::load(config);
  preparation.record_duration("read");
  preparation.report_progress("train the coarse model", 0, 1);
  const CoarseModel model = train_coarse_model(preparation.device, data.train,
                                               static_cast<std::int64_t>(data.classes.size()),
                                               input.coarse, preparation.stop);
  preparation.record_duration("train");
  preparation.begin_vectors(model.shape.hidden.back());
  std::vector<float> features;
  const CoarseOutputs outputs = coarse_outputs(
      preparation.device, model, data.train,
      [&](const ImageBlock& block) {
        features = block.features;
        preparation.append(features);
        preparation.report_progress("features", block.first + block.rows, data.train.size());
      },
      preparation.stop);
  append_places(preparation, config, data);
  preparation.commit_vectors();
  if (wants_margin(input)) preparation.write_utility(outputs.utility, "the coarse model");
  preparation.record_duration("features");
  preparation.result.provenance = fmt::format(
      "features of a coarse model ({}-{}-{}, trained on {:.3g} % of the rows){}",
      data.train.values_per_image(), fmt::join(input.coarse.hidden, "-"), data.classes.size(),
      100 * input.coarse.fraction, wants_margin(input) ? " and its margins" : "");
  preparation.result.data_digest = data.digest;
  preparation.result.data_section = section_of(config);
}

void check_is_png(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (extension != ".png")
    throw_error(ErrorCode::kInvalidArgument,
                "{} is not a PNG file: convert it, or move it out of the folder", path.string());
}

/// Projects pixels through a random matrix into `projected`. Returns the sums of its columns.
std::vector<double> project_pictures(Preparation& preparation, const ImageDataConfig& config,
                                     const PixelProjection& projection, NpyWriter& projected) {
  const std::vector<fs::path> files = files_in(config.path);
  std::vector<double> sums(projection.width());
  std::vector<float> block;
  std::string digest;
  for (std::size_t row = 0; row < files.size(); ++row) {
    if (row % kPicturesPerProgress == 0)
      preparation.report_progress("read pictures", row, files.size());
    check_is_png(files[row]);
    const std::vector<std::uint8_t> values =
        resample_picture(read_png(files[row]), config.height, config.width, config.colours);
    const std::string both = digest + sha256(std::as_bytes(std::span(values)));
    digest = sha256(std::as_bytes(std::span(both)));
    block.resize(block.size() + projection.width());
    const auto vector = std::span(block).last(projection.width());
    projection.project(values, vector);
    for (std::size_t d = 0; d < vector.size(); ++d) sums[d] += vector[d];
    if (block.size() == kBlockRows * projection.width() || row + 1 == files.size()) {
      projected.append(block);
      block.clear();
    }
    preparation.append_place({.path = files[row].string()});
  }
  projected.commit();
  const std::string all =
      fmt::format("pictures|{}|{}|{}|{}", config.height, config.width, config.colours, digest);
  preparation.result.data_digest = sha256(std::as_bytes(std::span(all)));
  return sums;
}

void prepare_unlabelled(Preparation& preparation, const ImageDataConfig& config) {
  const std::size_t values =
      static_cast<std::size_t>(config.height) * config.width * config.colours;
  const PixelProjection projection(values, preparation.input.seed);
  const fs::path file = preparation.result.folder / "projected.npy";
  NpyWriter writer(file, projection.width());
  const std::vector<double> sums = project_pictures(preparation, config, projection, writer);
  preparation.record_duration("read");
  // The projection is linear, so centring the projections centres the pixels.
  const NpyFile projected(file);
  const std::size_t width = projection.width(), rows = projected.rows();
  preparation.begin_vectors(width);
  std::vector<float> block;
  for (std::size_t first = 0; first < rows; first += kBlockRows) {
    preparation.report_progress("vectors", first, rows);
    block.resize(std::min(kBlockRows, rows - first) * width);
    projected.read(first, block);
    for (std::size_t i = 0; i < block.size(); ++i)
      block[i] = static_cast<float>(block[i] - sums[i % width] / static_cast<double>(rows));
    preparation.append(block);
  }
  fs::remove(file);
  preparation.commit_vectors();
  preparation.record_duration("vectors");
  preparation.result.provenance =
      values > width ? fmt::format("pixels ({} x {} x {}), centred, through a random matrix",
                                   config.height, config.width, config.colours)
                     : "pixels, centred";
}

}  // namespace

std::string request_of_pictures(const SelectInput& input) {
  const ImageDataConfig data = image_data_of(input);
  std::vector<fs::path> files = files_of(input, data);
  if (is_npy(input.utility)) files.emplace_back(input.utility);
  const CoarseOptions& coarse = input.coarse;
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", digest_of_files(files),
                     data.height, data.width, data.colours, data.validation_fraction,
                     data.test_fraction, data.seed, fmt::join(coarse.hidden, "-"), coarse.fraction,
                     coarse.seed, coarse.steps, coarse.batch, coarse.learning_rate,
                     coarse.weight_decay, input.utility);
}

void prepare_pictures(Preparation& preparation) {
  const SelectInput& input = preparation.input;
  const ImageDataConfig config = image_data_of(input);
  const bool labelled = has_labels(input), from_file = is_npy(input.utility);
  if (!labelled && input.utility == "margin")
    throw_error(ErrorCode::kInvalidArgument,
                "the pictures of {} have no labels, and so no margin: put them into subfolders of "
                "the names of their labels, or let input.utility be flat",
                input.path);
  if (!wants_margin(input) && input.utility != "flat" && !from_file)
    throw_error(ErrorCode::kInvalidArgument,
                "pictures have no utility '{}': let input.utility be margin, flat, or a .npy file "
                "of a number for each row",
                input.utility);
  if (labelled) prepare_labelled(preparation, config);
  else prepare_unlabelled(preparation, config);
  if (from_file) preparation.copy_utility(input.utility);
}

}  // namespace weft::apps

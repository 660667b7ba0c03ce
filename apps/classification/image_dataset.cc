#include "apps/classification/image_dataset.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include "apps/classification/idx_file.h"
#include "apps/classification/image_folder.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

/// Reads a pair of files with pictures and labels. `part` is "train" or "t10k".
LabelledImages read_pair(const ImageDataConfig& config, const std::string& part) {
  const fs::path image_file = fs::path(config.files) / (part + "-images-idx3-ubyte.gz");
  const fs::path label_file = fs::path(config.files) / (part + "-labels-idx1-ubyte.gz");
  for (const fs::path& file : {image_file, label_file}) {
    if (!fs::exists(file))
      throw_error(ErrorCode::kFailedPrecondition,
                  "there is no {}: install the pictures with `apt-get install "
                  "dataset-fashion-mnist`, say where they are with `data: {{files: FOLDER}}`, or "
                  "train on your own with `data: {{path: FOLDER, height: .., width: ..}}`",
                  file.string());
  }
  IdxArray images = read_idx(image_file);
  const IdxArray labels = read_idx(label_file);
  const std::size_t height = config.height, width = config.width;
  if (images.shape.size() != 3 || images.shape[1] != height || images.shape[2] != width)
    throw_error(ErrorCode::kInvalidArgument,
                "{} does not hold pictures of {} x {} pixels: it is not a file of {}",
                image_file.string(), height, width, config.dataset);
  if (labels.shape.size() != 1 || labels.shape[0] != images.shape[0])
    throw_error(ErrorCode::kInvalidArgument,
                "{} has {} labels for the {} pictures of {}: they are not of one data set; install "
                "it anew",
                label_file.string(), labels.values.size(), images.shape[0], image_file.string());
  for (std::size_t row = 0; row < labels.values.size(); ++row) {
    if (labels.values[row] >= config.classes.size())
      throw_error(ErrorCode::kInvalidArgument,
                  "{} has an unknown label {} at row {}: {} has the labels 0 to {}",
                  label_file.string(), labels.values[row], row, config.dataset,
                  config.classes.size() - 1);
  }
  return {.height = config.height,
          .width = config.width,
          .colours = 1,
          .values = std::move(images.values),
          .labels = {labels.values.begin(), labels.values.end()}};
}

LabelledImages empty_like(const LabelledImages& images) {
  return {.height = images.height, .width = images.width, .colours = images.colours};
}

std::string digest_of(const ImageDataset& data) {
  std::string all;
  const auto add = [&](auto span) { all += sha256(std::as_bytes(span)) + "|"; };
  for (const std::string& name : data.classes) add(std::span(name));
  for (const LabelledImages* part : {&data.train, &data.validation, &data.test}) {
    const int sizes[] = {part->height, part->width, part->colours};
    add(std::span(sizes));
    add(std::span(part->values));
    add(std::span(part->labels));
  }
  return sha256(std::as_bytes(std::span(all)));
}

/// Part that a row of the training file or of a folder belongs to.
enum class ImagePart : std::uint8_t { kTrain, kValidation, kTest };

ImagePart part_of(const ImageDataConfig& config, std::size_t row) {
  const bool folder = !config.path.empty();
  if (folder && is_held_out(config.seed ^ fnv1a("test", 4), row, config.test_fraction))
    return ImagePart::kTest;
  return is_held_out(config.seed, row, config.validation_fraction) ? ImagePart::kValidation
                                                                   : ImagePart::kTrain;
}

}  // namespace

ImageParts image_parts(const ImageDataConfig& config, std::size_t pictures) {
  ImageParts parts;
  for (std::size_t row = 0; row < pictures; ++row) {
    switch (part_of(config, row)) {
      case ImagePart::kTrain: ++parts.train; break;
      case ImagePart::kValidation: ++parts.validation; break;
      case ImagePart::kTest: ++parts.test; break;
    }
  }
  return parts;
}

bool is_held_out(std::uint64_t seed, std::uint64_t row, double fraction) {
  const std::uint64_t key = seed ^ fnv1a("held out", 8);
  return philox(key, row)[0] < fraction * 0x1p32;
}

ImageDataset ImageDataset::load(const ImageDataConfig& config) {
  const bool folder = !config.path.empty();
  const LabelledImages all = folder ? read_image_folder(config.path, config.classes, config.height,
                                                        config.width, config.colours)
                                    : read_pair(config, "train");
  ImageDataset data{.classes = config.classes,
                    .train = empty_like(all),
                    .train_pictures = {},
                    .validation = empty_like(all),
                    .test = folder ? empty_like(all) : read_pair(config, "t10k")};
  for (std::size_t row = 0; row < all.size(); ++row) {
    const ImagePart part = part_of(config, row);
    LabelledImages& images = part == ImagePart::kTest         ? data.test
                             : part == ImagePart::kValidation ? data.validation
                                                              : data.train;
    images.append(all.image(row), all.labels[row]);
    if (part == ImagePart::kTrain) data.train_pictures.push_back(static_cast<std::uint32_t>(row));
  }
  if (data.train.size() == 0)
    throw_error(ErrorCode::kInvalidArgument,
                "all {} pictures of {} are held out: add some, or lower data.validation_fraction",
                all.size(), folder ? config.path : config.files);
  data.scale = PixelNormalization::of(data.train);
  data.digest = digest_of(data);
  return data;
}

RowSampler ImageDataset::sampler(const SubsetConfig& subset, std::uint64_t run_seed) const {
  return RowSampler(subset, train.size(), digest, "the pictures of this run",
                    run_seed ^ fnv1a("pictures", 8));
}

double ImageDataset::class_prior_loss() const {
  std::vector<double> counts(classes.size(), 1.0);
  for (const std::uint16_t label : train.labels) counts[label] += 1;
  const double total = static_cast<double>(train.size() + classes.size());
  const LabelledImages& part = validation.size() > 0 ? validation : test;
  double loss = 0;
  for (const std::uint16_t label : part.labels) loss -= std::log(counts[label] / total);
  return part.size() > 0 ? loss / part.size() : 0;
}

}  // namespace weft::apps

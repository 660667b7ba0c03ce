#include "apps/classification/image_batches.h"

#include <cstring>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

ImageDataset open_dataset(const ImageBatchesRecipe& recipe) {
  ImageDataset dataset = ImageDataset::load(recipe.data);
  if (dataset.digest != recipe.digest)
    throw_error(ErrorCode::kIncompatible,
                "the pictures on this host are not those that the driver trains on ({}... and "
                "{}...): {} on all hosts",
                dataset.digest.substr(0, 12), recipe.digest.substr(0, 12),
                recipe.data.path.empty() ? "install the same version of dataset-fashion-mnist"
                                         : "put the same folder " + recipe.data.path);
  return dataset;
}

}  // namespace

ImageBatches::ImageBatches(const ImageBatchesRecipe& recipe)
    : ImageBatches(recipe, open_dataset(recipe)) {}

ImageBatches::ImageBatches(const ImageBatchesRecipe& recipe, ImageDataset dataset)
    : recipe_(recipe),
      dataset_(std::move(dataset)),
      sampler_(dataset_.sampler(recipe.data.subset, recipe.seed)),
      validation_order_(dataset_.validation.size()) {
  if (sampler_.subset_digest() != recipe.subset_digest)
    throw_error(ErrorCode::kIncompatible,
                "the chosen rows in {} on this host are not the driver's: put the same folder on "
                "all hosts",
                recipe.data.subset.folder);
  for (int byte = 0; byte < 256; ++byte) scaled_[byte] = dataset_.scale(byte);
}

std::size_t ImageBatches::row_of(mesh::Split split, std::uint64_t step, std::int64_t row,
                                 std::int64_t rows) const {
  if (split == mesh::Split::kValidation) {
    if (dataset_.validation.size() == 0)
      throw_error(ErrorCode::kFailedPrecondition,
                  "no picture is held out to validate on: raise data.validation_fraction, or set "
                  "training.validate_every: 0");
    return validation_order_[static_cast<std::int64_t>(step) * rows + row];
  }
  return sampler_.draw(step, row);
}

void ImageBatches::read(std::string_view input, mesh::Split split, std::uint64_t step,
                        int microbatch, int microbatches, const Region& region,
                        std::span<std::byte> out) {
  const bool pixels = input == "pixels";
  WEFT_CHECK(pixels || input == "targets", "input {}", input);
  WEFT_CHECK(out.size() == static_cast<std::size_t>(region.num_elements()) * 4, "{} bytes",
             out.size());
  WEFT_CHECK(
      region.rank() == 4 || region.rank() == (pixels ? 2u : 1u) || (!pixels && region.rank() == 3),
      "rank {}", region.rank());
  const LabelledImages& images =
      split == mesh::Split::kTrain ? dataset_.train : dataset_.validation;
  std::byte* to = out.data();
  const auto put = [&](auto value) {
    static_assert(sizeof value == 4);
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  };
  const auto put_values = [&](std::span<const std::uint8_t> values, Interval part) {
    for (std::int64_t i = part.begin; i < part.end; ++i) put(scaled_[values[i]]);
  };
  for (std::int64_t r = region[0].begin; r < region[0].end; ++r) {
    const std::size_t row = row_of(split, step, microbatch * recipe_.rows_per_microbatch + r,
                                   microbatches * recipe_.rows_per_microbatch);
    if (!pixels) {
      put(static_cast<std::int32_t>(images.labels[row]));
    } else if (region.rank() == 2) {
      put_values(images.image(row), region[1]);
    } else {
      for (std::int64_t y = region[1].begin; y < region[1].end; ++y)
        for (std::int64_t x = region[2].begin; x < region[2].end; ++x)
          put_values(images.image(row).subspan((y * images.width + x) * images.colours), region[3]);
    }
  }
}

}  // namespace weft::apps

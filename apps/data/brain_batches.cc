#include "apps/data/brain_batches.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/philox.h"

namespace weft::apps {
namespace {

constexpr double kLargestAngle = 0.17;  // radians, ten degrees
constexpr double kLargestScale = 0.1;
constexpr double kLargestShift = 4;
constexpr double kLargestBrightness = 0.15;

BrainDataset open_dataset(const BrainBatchesRecipe& recipe) {
  BrainDataset dataset = BrainDataset::load(recipe.data, recipe.height, recipe.width);
  if (dataset.digest != recipe.digest)
    throw_error(ErrorCode::kIncompatible,
                "the brain slices on this host are not those that the driver trains on ({}... and "
                "{}...): install the same version of "
                "mricron-data on all hosts",
                dataset.digest.substr(0, 12), recipe.digest.substr(0, 12));
  return dataset;
}

}  // namespace

Augmentation Augmentation::draw(std::uint64_t seed, std::uint64_t step, std::int64_t row,
                                bool may_mirror) {
  const std::uint64_t key = seed ^ fnv1a("augmentation", 12);
  const auto a = philox(key, step, 2 * row), b = philox(key, step, 2 * row + 1);
  const auto between = [](std::uint32_t word, double limit) {
    return limit * (2 * static_cast<double>(uniform_float(word)) - 1);
  };
  return {.mirrored = may_mirror && (a[0] & 1) == 1,
          .angle = between(a[1], kLargestAngle),
          .scale = 1 + between(a[2], kLargestScale),
          .down = between(a[3], kLargestShift),
          .right = between(b[0], kLargestShift),
          .gain = static_cast<float>(1 + between(b[1], kLargestBrightness)),
          .offset = static_cast<float>(between(b[2], kLargestBrightness))};
}

void augment(const BrainSlice& from, const Augmentation& change, int height, int width,
             BrainSlice& to) {
  to.number = from.number;
  to.pixels.resize(from.pixels.size());
  to.regions.resize(from.regions.size());
  const double middle_row = 0.5 * (height - 1), middle_column = 0.5 * (width - 1);
  const double cosine = std::cos(change.angle) * change.scale,
               sine = std::sin(change.angle) * change.scale;
  std::size_t at = 0;
  for (int i = 0; i < height; ++i) {
    for (int j = 0; j < width; ++j, ++at) {
      const double y = i - middle_row, x = (change.mirrored ? -1 : 1) * (j - middle_column);
      const double row =
          std::clamp<double>(middle_row + cosine * y + sine * x + change.down, 0.0, height - 1);
      const double column =
          std::clamp<double>(middle_column + cosine * x - sine * y + change.right, 0.0, width - 1);
      const int top = static_cast<int>(row), left = static_cast<int>(column);
      const int bottom = std::min(top + 1, height - 1), right = std::min(left + 1, width - 1);
      const auto place = [&](int r, int c) { return r * static_cast<std::size_t>(width) + c; };
      const auto pixel = [&](int r, int c) { return from.pixels[place(r, c)]; };
      const auto v = static_cast<float>(row - top), h = static_cast<float>(column - left);
      const float upper = pixel(top, left) * (1 - h) + pixel(top, right) * h;
      const float lower = pixel(bottom, left) * (1 - h) + pixel(bottom, right) * h;
      to.pixels[at] = change.gain * (upper * (1 - v) + lower * v) + change.offset;
      to.regions[at] = from.regions[place(v < 0.5f ? top : bottom, h < 0.5f ? left : right)];
    }
  }
}

BrainBatches::BrainBatches(const BrainBatchesRecipe& recipe)
    : BrainBatches(recipe, open_dataset(recipe)) {}
BrainBatches::BrainBatches(const BrainBatchesRecipe& recipe, BrainDataset dataset)
    : recipe_(recipe), dataset_(std::move(dataset)) {}

void BrainBatches::make_row(mesh::Split split, std::uint64_t step, std::int64_t row,
                            std::int64_t rows) {
  if (split == mesh::Split::kValidation) {
    const auto index = (step * rows + row) % dataset_.held_out.size();
    picture_ = dataset_.held_out[index];
    return;
  }
  const std::uint64_t key = recipe_.seed ^ fnv1a("slices", 6);
  const std::uint32_t word = philox(key, step, row)[0];
  const BrainSlice& slice = dataset_.train[word * dataset_.train.size() >> 32];
  // A sagittal slice is not mirrored, as it would exchange the front and back of the head.
  const bool may_mirror = recipe_.data.plane != Plane::kSagittal;
  const Augmentation change = recipe_.data.augment
                                  ? Augmentation::draw(recipe_.seed, step, row, may_mirror)
                                  : Augmentation{};
  augment(slice, change, dataset_.height, dataset_.width, picture_);
}

void BrainBatches::read(std::string_view input, mesh::Split split, std::uint64_t step,
                        int microbatch, int microbatches, const Region& region,
                        std::span<std::byte> out) {
  const bool pixels = input == "pixels", targets = input == "targets";
  WEFT_CHECK(pixels || targets || input == "weights", "input {}", input);
  WEFT_CHECK(region.rank() == (pixels ? 4 : 3) &&
                 out.size() == static_cast<std::size_t>(region.num_elements()) * 4,
             "{} bytes", out.size());
  std::byte* to = out.data();
  const auto put = [&](auto value) {
    static_assert(sizeof value == 4);
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  };
  for (std::int64_t r = region[0].begin; r < region[0].end; ++r) {
    make_row(split, step, microbatch * recipe_.rows_per_microbatch + r,
             microbatches * recipe_.rows_per_microbatch);
    for (std::int64_t i = region[1].begin; i < region[1].end; ++i) {
      for (std::int64_t j = region[2].begin; j < region[2].end; ++j) {
        const std::size_t at = i * dataset_.width + j;
        if (pixels) {
          put(picture_.pixels[at]);
        } else if (targets) {
          put(static_cast<std::int32_t>(picture_.regions[at]));
        } else {
          put(dataset_.class_weights[picture_.regions[at]]);
        }
      }
    }
  }
}

}  // namespace weft::apps

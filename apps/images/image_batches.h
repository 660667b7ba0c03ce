#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "apps/data/row_sampler.h"
#include "apps/data/spread_order.h"
#include "apps/images/image_dataset.h"
#include "mesh/runtime/batch_source.h"

namespace weft::apps {

/// What a device process needs to read its share of the pictures: sent by the driver.
struct ImageBatchesRecipe {
  ImageDataConfig data;
  std::int64_t rows_per_microbatch = 0;
  std::uint64_t seed = 0;
  std::string digest = {};         ///< Of the driver's data set: another one is refused.
  std::string subset_digest = {};  ///< The same of what may be drawn.

  static constexpr auto fields = weft::fields(
      &ImageBatchesRecipe::data, &ImageBatchesRecipe::rows_per_microbatch,
      &ImageBatchesRecipe::seed, &ImageBatchesRecipe::digest, &ImageBatchesRecipe::subset_digest);
  friend bool operator==(const ImageBatchesRecipe&, const ImageBatchesRecipe&) = default;
};

/// The inputs "pixels" f32[rows, values] or f32[rows, height, width, colours], and "targets"
/// i32[rows] or i32[rows, 1, 1].
///
/// A training row is drawn by chance from the rows to train on, with replacement, as a function of
/// (seed, step, row); held-out rows come in turn, in an order in which the first few are spread
/// over all of them. Owner's thread only.
class ImageBatches final : public mesh::BatchSource {
 public:
  /// Throws Error(kIncompatible) if the data set or the subset on this host is another one.
  explicit ImageBatches(const ImageBatchesRecipe& recipe);
  ImageBatches(const ImageBatchesRecipe& recipe, ImageDataset dataset);

  void read(std::string_view input, mesh::Split split, std::uint64_t step, int microbatch,
            int microbatches, const Region& region, std::span<std::byte> out) override;

 private:
  /// The picture of one row of a batch.
  std::size_t row_of(mesh::Split split, std::uint64_t step, std::int64_t row,
                     std::int64_t rows) const;

  const ImageBatchesRecipe recipe_;
  const ImageDataset dataset_;
  const RowSampler sampler_;
  const SpreadOrder validation_order_;
  std::array<float, 256> scaled_;  ///< What the model reads for each byte.
};

}  // namespace weft::apps

#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "apps/classification/image_dataset.h"
#include "apps/data/row_sampler.h"
#include "apps/data/spread_order.h"
#include "mesh/runtime/batch_source.h"

namespace weft::apps {

/// Message from the driver that tells a device process how to read its share of the pictures.
struct ImageBatchesRecipe {
  ImageDataConfig data;
  std::int64_t rows_per_microbatch = 0;
  std::uint64_t seed = 0;
  std::string digest = {};         ///< Driver's data set. A device with another one throws.
  std::string subset_digest = {};  ///< Driver's subset of rows. Compared likewise.

  static constexpr auto fields = weft::fields(
      &ImageBatchesRecipe::data, &ImageBatchesRecipe::rows_per_microbatch,
      &ImageBatchesRecipe::seed, &ImageBatchesRecipe::digest, &ImageBatchesRecipe::subset_digest);
  friend bool operator==(const ImageBatchesRecipe&, const ImageBatchesRecipe&) = default;
};

/// Batch source with the inputs "pixels" f32[rows, values] or f32[rows, height, width, colours],
/// and "targets" i32[rows] or i32[rows, 1, 1].
///
/// Training rows are drawn at random with replacement, as a function of (seed, step, row).
/// Validation rows come in a fixed order whose first rows are spread over the whole part. Owner's
/// thread only.
class ImageBatches final : public mesh::BatchSource {
 public:
  /// Loads the data set. Throws Error(kIncompatible) if the data set or the subset on this host
  /// differs from the driver's.
  explicit ImageBatches(const ImageBatchesRecipe& recipe);
  ImageBatches(const ImageBatchesRecipe& recipe, ImageDataset dataset);

  void read(std::string_view input, mesh::Split split, std::uint64_t step, int microbatch,
            int microbatches, const Region& region, std::span<std::byte> out) override;

 private:
  /// Returns the data set's row for one row of a batch.
  std::size_t row_of(mesh::Split split, std::uint64_t step, std::int64_t row,
                     std::int64_t rows) const;

  const ImageBatchesRecipe recipe_;
  const ImageDataset dataset_;
  const RowSampler sampler_;
  const SpreadOrder validation_order_;
  std::array<float, 256> scaled_;  ///< Input of the model for each byte value.
};

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/data/brain_dataset.h"
#include "mesh/runtime/batch_source.h"

namespace weft::apps {

/// Message from the driver that tells a device process how to read its share of the slices.
struct BrainBatchesRecipe {
  BrainDataConfig data;
  int height = 0;
  int width = 0;
  std::int64_t rows_per_microbatch = 0;
  std::uint64_t seed = 0;
  std::string digest = {};  ///< Driver's data set. A device with another one throws.

  static constexpr auto fields =
      weft::fields(&BrainBatchesRecipe::data, &BrainBatchesRecipe::height,
                   &BrainBatchesRecipe::width, &BrainBatchesRecipe::rows_per_microbatch,
                   &BrainBatchesRecipe::seed, &BrainBatchesRecipe::digest);
  friend bool operator==(const BrainBatchesRecipe&, const BrainBatchesRecipe&) = default;
};

/// Batch source with the inputs "pixels" f32[rows, height, width, 1], "targets" i32[rows, height,
/// width] and "weights" f32[rows, height, width].
///
/// A training row is a random slice with a random augmentation, as a function of (seed, step, row).
/// Validation rows are the held-out slices in turn, unchanged. Owner's thread only.
class BrainBatches final : public mesh::BatchSource {
 public:
  /// Loads the data set. Throws Error(kIncompatible) if the data set on this host differs from the
  /// driver's.
  explicit BrainBatches(const BrainBatchesRecipe& recipe);
  BrainBatches(const BrainBatchesRecipe& recipe, BrainDataset dataset);

  void read(std::string_view input, mesh::Split split, std::uint64_t step, int microbatch,
            int microbatches, const Region& region, std::span<std::byte> out) override;

 private:
  /// Fills picture_ with one row of a batch.
  void make_row(mesh::Split split, std::uint64_t step, std::int64_t row, std::int64_t rows);

  const BrainBatchesRecipe recipe_;
  const BrainDataset dataset_;
  BrainSlice picture_;
};

/// Augmentation of a training slice: a movement of its pixels and a change of brightness. A value.
struct Augmentation {
  bool mirrored = false;
  double angle = 0;  ///< Radians.
  double scale = 1;
  double down = 0, right = 0;  ///< Pixels.
  float gain = 1, offset = 0;

  /// Draws a random augmentation, as a function of (seed, step, row).
  static Augmentation draw(std::uint64_t seed, std::uint64_t step, std::int64_t row,
                           bool may_mirror);
};

/// Writes the changed slice to `to`. Brightness is interpolated between pixels. Regions are those
/// of the nearest pixel. Positions outside the slice take the value of the nearest edge.
void augment(const BrainSlice& from, const Augmentation& change, int height, int width,
             BrainSlice& to);

}  // namespace weft::apps

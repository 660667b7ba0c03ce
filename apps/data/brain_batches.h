#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/data/brain_dataset.h"
#include "mesh/runtime/batch_source.h"

namespace weft::apps {

/// What a device process needs to read its share of the slices: sent by the driver.
struct BrainBatchesRecipe {
  BrainDataConfig data;
  int height = 0;
  int width = 0;
  std::int64_t rows_per_microbatch = 0;
  std::uint64_t seed = 0;
  std::string digest = {};  ///< Of the driver's data set: another one is refused.

  static constexpr auto fields =
      weft::fields(&BrainBatchesRecipe::data, &BrainBatchesRecipe::height,
                   &BrainBatchesRecipe::width, &BrainBatchesRecipe::rows_per_microbatch,
                   &BrainBatchesRecipe::seed, &BrainBatchesRecipe::digest);
  friend bool operator==(const BrainBatchesRecipe&, const BrainBatchesRecipe&) = default;
};

/// The inputs "pixels" f32[rows, height, width, 1], "targets" i32[rows, height, width] and
/// "weights" f32[rows, height, width].
///
/// A training row is a slice drawn by chance and changed by chance, as a function of (seed, step,
/// row); a held-out row is a slice as it is: in turn. Owner's thread only.
class BrainBatches final : public mesh::BatchSource {
 public:
  /// Throws Error(kIncompatible) if the data set on this host is another one.
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

/// How a training slice is changed: where its pixels come from, and their brightness. A value.
struct Augmentation {
  bool mirrored = false;
  double angle = 0;  ///< Radians.
  double scale = 1;
  double down = 0, right = 0;  ///< Pixels.
  float gain = 1, offset = 0;

  /// Drawn from (seed, step, row).
  static Augmentation draw(std::uint64_t seed, std::uint64_t step, std::int64_t row,
                           bool may_mirror);
};

/// Brightness between pixels is interpolated, regions are those of the nearest pixel; what comes
/// from outside is as the nearest edge.
void augment(const BrainSlice& from, const Augmentation& change, int height, int width,
             BrainSlice& to);

}  // namespace weft::apps

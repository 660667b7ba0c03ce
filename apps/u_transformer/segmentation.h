#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "apps/data/brain_dataset.h"
#include "apps/data/picture.h"
#include "apps/models/u_transformer_graph.h"
#include "apps/run_files/checkpoint.h"
#include "core/device/device.h"

namespace weft::apps {

/// Region number of each pixel of a slice.
using Segmentation = std::vector<std::uint8_t>;

/// Returns the likeliest region of each pixel of each slice, by a U-Transformer of this shape and
/// these parameters. Runs on one device, slice by slice. Throws Error(kIncompatible) if the
/// parameters do not match the shape, Error(kCancelled) if `stop` is requested.
std::vector<Segmentation> segment(Device& device, const UTransformerShape& shape,
                                  const std::vector<TensorView>& parameters,
                                  const std::vector<BrainSlice>& slices,
                                  const std::stop_token& stop = {});

/// Agreement of two segmentations per region, over any number of slices: Dice's coefficient 2 |A
/// and B| / (|A| + |B|), from 0 (disjoint) to 1 (equal).
class DiceScore {
 public:
  explicit DiceScore(std::size_t regions) : both_(regions), first_(regions), second_(regions) {}
  void add(std::span<const std::uint8_t> first, std::span<const std::uint8_t> second);
  /// Returns nullopt if the region is in neither segmentation.
  std::optional<double> of(std::size_t region) const;
  /// Returns the mean over the regions from `first_region` on that occur.
  double mean(std::size_t first_region) const;

 private:
  std::vector<std::int64_t> both_, first_, second_;
};

/// Draws the slice, its true regions and the predicted ones side by side, enlarged. Regions are
/// coloured over the brightness.
Picture side_by_side(const BrainSlice& slice, const Segmentation& prediction, int height,
                     int width);

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/data/brain_data_config.h"
#include "apps/data/brain_regions.h"
#include "apps/data/nifti.h"

namespace weft::apps {

/// Slice of a head: brightness and region of each pixel. Row-major; the front or top of the head
/// comes first.
struct BrainSlice {
  int number = 0;                     ///< Index among the volume's slices in this plane.
  std::vector<float> pixels;          ///< Brightness with zero mean and unit deviation over the
                                      ///< training slices.
  std::vector<std::uint8_t> regions;  ///< Indices into kBrainRegions.
};

/// Slices of one head, cut to pictures of one size and split into two parts. A value, determined by
/// the files and the sizes.
struct BrainDataset {
  int height = 0;
  int width = 0;
  std::vector<BrainSlice> train;
  std::vector<BrainSlice> held_out;
  std::vector<float> class_weights;  ///< Loss weight by region. Mean over training pixels: 1.
  std::string digest;                ///< SHA-256 of the slices and the weights.

  std::size_t pixels() const { return height * static_cast<std::size_t>(width); }

  /// Reads ch2 (the head), ch2bet (its brain) and aal (the regions) of the package mricron-data.
  /// Pads pictures smaller than height x width and crops larger ones, around their centre. Throws
  /// Error(kFailedPrecondition), which says what to install, if the files do not exist. Throws
  /// Error(kInvalidArgument) if the slabs leave nothing to train on.
  static BrainDataset load(const BrainDataConfig& config, int height, int width);
  /// Does the same from volumes on one grid. `regions` maps labels to classes.
  static BrainDataset from_volumes(const BrainDataConfig& config, const Volume& head,
                                   const Volume& brain, const Volume& labels,
                                   const std::vector<std::uint8_t>& regions, int height, int width);

  /// Returns the share of each region in the pixels of these slices.
  static std::vector<double> frequencies(const std::vector<BrainSlice>& slices);
  /// Returns the most frequent region of each pixel position over the training slices: a baseline
  /// that ignores the picture.
  std::vector<std::uint8_t> most_frequent_regions() const;
  /// Returns the training slice whose position in the head is nearest: its regions are the second
  /// baseline.
  const BrainSlice& nearest_training_slice(const BrainSlice& slice) const;
  /// Returns the loss, on the held-out slices, of a model that predicts the region frequencies.
  double class_prior_loss() const;
};

}  // namespace weft::apps

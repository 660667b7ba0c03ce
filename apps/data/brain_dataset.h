#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/data/brain_data_config.h"
#include "apps/data/brain_regions.h"
#include "apps/data/nifti.h"

namespace weft::apps {

/// One slice of a head: what is measured, and which region each pixel belongs to. Row by row, the
/// front or top of the head first.
struct BrainSlice {
  int number = 0;                     ///< Of the volume's slices in this plane.
  std::vector<float> pixels;          ///< Zero mean and unit deviation over the training slices.
  std::vector<std::uint8_t> regions;  ///< Indices into kBrainRegions.
};

/// The slices of one head, cut to pictures of one size, and split. A value; the same from the same
/// files and sizes.
struct BrainDataset {
  int height = 0;
  int width = 0;
  std::vector<BrainSlice> train;
  std::vector<BrainSlice> held_out;
  std::vector<float> class_weights;  ///< By region; a training pixel counts 1 on average.
  std::string digest;                ///< SHA-256 of all of the above.

  std::size_t pixels() const { return height * static_cast<std::size_t>(width); }

  /// Reads ch2 (the head), ch2bet (the brain in it) and aal (the regions) of the package
  /// mricron-data. Pictures smaller than height x width are padded, larger ones cut, around their
  /// middle. Throws Error(kFailedPrecondition), saying what to install, where the files are not
  /// there; Error(kInvalidArgument) if the slabs leave nothing to train on.
  static BrainDataset load(const BrainDataConfig& config, int height, int width);
  /// The same from volumes on one grid; `regions` maps labels to classes.
  static BrainDataset from_volumes(const BrainDataConfig& config, const Volume& head,
                                   const Volume& brain, const Volume& labels,
                                   const std::vector<std::uint8_t>& regions, int height, int width);

  /// The share of each region in the pixels of these slices.
  static std::vector<double> frequencies(const std::vector<BrainSlice>& slices);
  /// What a segmentation that does not look at the picture says: the most frequent region of each
  /// pixel over the training slices.
  std::vector<std::uint8_t> usual_regions() const;
  /// The training slice that lies nearest in the head: to copy its regions is the other thing to
  /// beat.
  const BrainSlice& nearest_training_slice(const BrainSlice& slice) const;
  /// The loss of a model that knows the frequencies of the regions and nothing else, on the
  /// held-out slices.
  double frequency_loss() const;
};

}  // namespace weft::apps

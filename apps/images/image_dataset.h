#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/data/row_sampler.h"
#include "apps/images/image_data_config.h"
#include "apps/images/labelled_images.h"

namespace weft::apps {

/// Labelled pictures, split in three. A value; the same from the same files and configuration.
///
/// The rows of `train` are what ids of chosen rows mean, and `digest` is what they belong to.
struct ImageDataset {
  std::vector<std::string> classes;  ///< By label.
  LabelledImages train;
  /// By row of `train`: which one it is of the file's pictures, or of pictures_of_folder().
  std::vector<std::uint32_t> train_pictures = {};
  LabelledImages validation;  ///< Held out by hash of the row.
  LabelledImages test;        ///< Its own files', or a folder's rows, held out likewise.
  PixelScale scale = {};      ///< Of `train`.
  std::string digest = {};    ///< SHA-256 of all of the above.

  /// Whole, whatever subset the configuration names.
  /// Throws Error(kFailedPrecondition), saying what to install, where a data set's files are not
  /// there; Error(kInvalidArgument) where pictures and labels do not fit each other, with the file,
  /// or where nothing is left to train on; and as read_idx() and read_image_folder() do.
  static ImageDataset load(const ImageDataConfig& config);

  /// The rows that training may draw, for a run with this seed.
  RowSampler sampler(const SubsetConfig& subset, std::uint64_t run_seed) const;
  /// The loss of a model that knows how frequent each label of `train` is, and nothing else, on
  /// `validation`, or where that is empty on `test`; 0 without either.
  double frequency_loss() const;
};

/// How many pictures each part has. A value.
struct ImageParts {
  std::size_t train = 0, validation = 0, test = 0;
};

/// Returns the sizes of the parts that ImageDataset::load() makes of so many pictures, without
/// reading one; `test`: of a folder.
ImageParts image_parts(const ImageDataConfig& config, std::size_t pictures);

/// Whether a row belongs to a part that is held out with this probability: a function of
/// (seed, row) alone. The parts of different fractions lie in each other.
bool held_out(std::uint64_t seed, std::uint64_t row, double fraction);

}  // namespace weft::apps

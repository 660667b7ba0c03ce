#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/classification/image_data_config.h"
#include "apps/classification/labelled_images.h"
#include "apps/data/row_sampler.h"

namespace weft::apps {

/// Labelled pictures, split into three parts. A value, determined by the files and the
/// configuration.
///
/// Ids of chosen rows are row numbers of `train`. `digest` identifies the data set that they belong
/// to.
struct ImageDataset {
  std::vector<std::string> classes;  ///< Label names.
  LabelledImages train;
  /// Index of each row of `train` in the file's pictures or in pictures_of_folder().
  std::vector<std::uint32_t> train_pictures = {};
  LabelledImages validation;  ///< Rows held out by a hash of the row.
  LabelledImages test;        ///< Pictures of the test files, or rows of a folder held out by hash.
  PixelNormalization scale = {};  ///< Mean and deviation of `train`.
  std::string digest = {};        ///< SHA-256 of classes and all three parts.

  /// Loads all parts. Ignores the subset of the configuration.
  /// Throws Error(kFailedPrecondition), which says what to install, if a data set's files do not
  /// exist. Throws Error(kInvalidArgument), which names the file, if pictures and labels do not
  /// match or no row is left to train on. Throws as read_idx() and read_image_folder() do.
  static ImageDataset load(const ImageDataConfig& config);

  /// Returns the sampler of the training rows for a run with this seed.
  RowSampler sampler(const SubsetConfig& subset, std::uint64_t run_seed) const;
  /// Returns the loss of a model that predicts the label frequencies of `train`. It is computed on
  /// `validation`, or on `test` if `validation` is empty. 0 if both are empty.
  double class_prior_loss() const;
};

/// Number of pictures of each part. A value.
struct ImageParts {
  std::size_t train = 0, validation = 0, test = 0;
};

/// Returns the sizes of the parts that ImageDataset::load() makes of `pictures` pictures, without
/// reading any. `test` is 0 unless the pictures come from a folder.
ImageParts image_parts(const ImageDataConfig& config, std::size_t pictures);

/// Returns true if a row is held out, with probability `fraction`. A function of its arguments
/// alone. Rows held out at a small fraction are also held out at a larger one.
bool is_held_out(std::uint64_t seed, std::uint64_t row, double fraction);

}  // namespace weft::apps

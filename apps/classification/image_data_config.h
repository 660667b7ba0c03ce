#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/data/subset_config.h"
#include "core/codec/codec.h"
#include "core/config/config_node.h"

namespace weft::apps {

/// `data:` section of an app that classifies pictures. A value.
///
/// The pictures come from a data set of a Debian package, which has a test part, or from a folder.
/// A folder's subfolders are the labels, and a share of its pictures is held out for the test.
struct ImageDataConfig {
  /// "fashion-mnist", or empty if `path` is set.
  std::string dataset = "fashion-mnist";
  /// Folder of the data set's files, as the Debian package dataset-fashion-mnist installs them.
  std::string files = "/usr/share/datasets/fashion-mnist";
  std::string path = {};
  int height = 28;  ///< Pixels of every picture. A folder's pictures are scaled to this size.
  int width = 28;
  int colours = 1;                   ///< 1 for grey, 3 for red, green, blue.
  std::vector<std::string> classes;  ///< Label names. A folder's subfolders, sorted by name.
  double validation_fraction = 0.1;  ///< Share of the rows that are not for the test.
  double test_fraction = 0;          ///< Share of a folder's pictures. 0 for a data set.
  std::uint64_t seed = 1;            ///< Seed of the split, independent of the run's seed.
  SubsetConfig subset = {};          ///< Rows of the training part that may be drawn.

  static constexpr auto fields = weft::fields(
      &ImageDataConfig::dataset, &ImageDataConfig::files, &ImageDataConfig::path,
      &ImageDataConfig::height, &ImageDataConfig::width, &ImageDataConfig::colours,
      &ImageDataConfig::classes, &ImageDataConfig::validation_fraction,
      &ImageDataConfig::test_fraction, &ImageDataConfig::seed, &ImageDataConfig::subset);
  friend bool operator==(const ImageDataConfig&, const ImageDataConfig&) = default;
};

/// Returns the configuration that holds without a `data:` section.
ImageDataConfig default_image_data();
/// Reads and finishes the section. Makes paths absolute (see ConfigNode::as_path). Lists a folder's
/// labels, as the model needs their number.
ImageDataConfig parse_image_data(const ConfigNode& node);

}  // namespace weft::apps

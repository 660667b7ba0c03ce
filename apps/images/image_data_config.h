#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/data/subset_config.h"
#include "core/codec/codec.h"
#include "core/config/config_node.h"

namespace weft::apps {

/// The `data:` section of an app that learns to tell pictures apart. A value.
///
/// Either a data set that a Debian package has, which comes with a test part; or a folder whose
/// subfolders are the labels, of which a part is held out for the test.
struct ImageDataConfig {
  /// "fashion-mnist"; empty where `path` stands.
  std::string dataset = "fashion-mnist";
  /// Where the data set's files lie; of the Debian package dataset-fashion-mnist.
  std::string files = "/usr/share/datasets/fashion-mnist";
  std::string path = {};
  int height = 28;  ///< Pixels of every picture; those of a folder are scaled to it.
  int width = 28;
  int colours = 1;                   ///< 1: grey; 3: red, green, blue.
  std::vector<std::string> classes;  ///< By label: a folder's are its subfolders, by name.
  double validation_fraction = 0.1;  ///< Of the rows that are not for the test.
  double test_fraction = 0;          ///< Of a folder.
  std::uint64_t seed = 1;            ///< Of the split: the run's own changes nothing of it.
  SubsetConfig subset = {};          ///< Of the rows to train on.

  static constexpr auto fields = weft::fields(
      &ImageDataConfig::dataset, &ImageDataConfig::files, &ImageDataConfig::path,
      &ImageDataConfig::height, &ImageDataConfig::width, &ImageDataConfig::colours,
      &ImageDataConfig::classes, &ImageDataConfig::validation_fraction,
      &ImageDataConfig::test_fraction, &ImageDataConfig::seed, &ImageDataConfig::subset);
  friend bool operator==(const ImageDataConfig&, const ImageDataConfig&) = default;
};

/// The same without a section.
ImageDataConfig default_image_data();
/// Reads and finishes the section. Paths are absolute then: see ConfigNode::as_path. A folder's
/// labels are listed here, as the model needs their number.
ImageDataConfig parse_image_data(const ConfigNode& node);

}  // namespace weft::apps

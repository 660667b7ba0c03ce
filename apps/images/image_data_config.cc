#include "apps/images/image_data_config.h"

#include <filesystem>

#include "apps/images/image_folder.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

constexpr double kUsualTestFraction = 0.1;

}  // namespace

ImageDataConfig default_image_data() {
  ImageDataConfig config;
  config.classes = {"t-shirt", "trouser", "pullover", "dress", "coat",
                    "sandal",  "shirt",   "sneaker",  "bag",   "ankle boot"};
  return config;
}

ImageDataConfig parse_image_data(const ConfigNode& node) {
  ImageDataConfig config = default_image_data();
  enum class Colours : std::uint8_t { kGrey, kRgb } colours = Colours::kGrey;
  const bool has_dataset =
      node.read_enum("dataset", config.dataset, {{"fashion-mnist", "fashion-mnist"}});
  const auto path = node.find("path");
  if (path) {
    config.test_fraction = kUsualTestFraction;
    node.require("height", config.height, {.min = 1, .max = 4096});
    node.require("width", config.width, {.min = 1, .max = 4096});
    node.read("test_fraction", config.test_fraction, {.min = 0.0, .max = 0.5});
    node.read_enum("colours", colours,
                   EnumNames<Colours>{{"grey", Colours::kGrey}, {"rgb", Colours::kRgb}});
    config.colours = colours == Colours::kRgb ? 3 : 1;
    if (has_dataset) path->note("data has a `dataset` and a `path`: leave one of them out");
    config.dataset = "";
    config.files = "";
    try {
      config.path = path->as_path().string();
      config.classes = labels_of_folder(config.path);
    } catch (const Error& error) {
      path->note("data.path: " + error.message());
    }
  } else if (const auto files = node.find("files")) {
    config.files = files->as_path().string();
  }
  node.read("validation_fraction", config.validation_fraction, {.min = 0.0, .max = 0.5});
  node.read("seed", config.seed);
  config.subset = read_subset(node);
  node.finish();
  return config;
}

}  // namespace weft::apps

#include "apps/classification/image_data_config.h"

#include <filesystem>

#include "apps/classification/image_folder.h"
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
      node.read_enum("dataset", config.dataset, {{"fashion-mnist", "fashion-mnist"}},
                     "A data set of a Debian package, with a test part");
  const auto path =
      node.find("path", "A folder of pictures instead, whose subfolders are the labels");
  const auto files = node.find("files", KeyDescription("Where the data set's files lie")
                                            .type("path")
                                            .by_default("/usr/share/datasets/fashion-mnist"));
  if (path) {
    config.test_fraction = kUsualTestFraction;
    node.require(
        "height", config.height,
        KeyDescription("Height to which the folder's pictures are scaled; required with path")
            .unit("pixels")
            .conditional(),
        {.min = 1, .max = 4096});
    node.require(
        "width", config.width,
        KeyDescription("Width to which the folder's pictures are scaled; required with path")
            .unit("pixels")
            .conditional(),
        {.min = 1, .max = 4096});
    node.read("test_fraction", config.test_fraction,
              "Share of the folder's pictures that is kept for the test at the end",
              {.min = 0.0, .max = 0.5});
    node.read_enum("colours", colours,
                   EnumNames<Colours>{{"grey", Colours::kGrey}, {"rgb", Colours::kRgb}},
                   "Colours to which the folder's pictures are converted");
    config.colours = colours == Colours::kRgb ? 3 : 1;
    if (has_dataset)
      path->record_problem("data has a `dataset` and a `path`: leave one of them out");
    if (files)
      files->record_problem("data has `files` of a data set and a `path`: leave one of them out");
    config.dataset = "";
    config.files = "";
    try {
      config.path = path->as_path().string();
      if (!node.is_outline()) config.classes = labels_of_folder(config.path);
    } catch (const Error& error) {
      path->record_problem("data.path: " + error.message());
    }
  } else if (files) {
    config.files = files->as_path().string();
  }
  node.read("validation_fraction", config.validation_fraction,
            "Share of the rows that is held out to validate on", {.min = 0.0, .max = 0.5});
  node.read("seed", config.seed, "Start of the random numbers that split the rows");
  config.subset = read_subset(node);
  node.finish();
  return config;
}

}  // namespace weft::apps

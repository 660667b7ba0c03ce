#include "apps/data/brain_data_config.h"

#include <filesystem>

namespace weft::apps {

BrainDataConfig parse_brain_data(const ConfigNode& node) {
  BrainDataConfig config;
  const bool has_templates = node.read("templates", config.templates);
  node.read_enum(
      "plane", config.plane,
      EnumNames<Plane>{
          {"axial", Plane::kAxial}, {"coronal", Plane::kCoronal}, {"sagittal", Plane::kSagittal}});
  node.read("reduce", config.reduce, {.min = 1, .max = 8});
  node.read("slabs", config.slabs, {.min = 1, .max = 50});
  node.read("slab", config.slab, {.min = 1, .max = 100});
  node.read("gap", config.gap, {.min = 0, .max = 50});
  node.read("class_balance", config.class_balance, {.min = 0.0, .max = 1.0});
  node.read("augment", config.augment);
  node.finish();
  if (has_templates) {
    config.templates = node.at("templates").as_path().string();
    if (!std::filesystem::is_directory(config.templates))
      node.at("templates").fail("data.templates: there is no folder " + config.templates);
  }
  return config;
}

}  // namespace weft::apps

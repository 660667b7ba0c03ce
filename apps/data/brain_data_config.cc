#include "apps/data/brain_data_config.h"

#include <filesystem>

namespace weft::apps {

BrainDataConfig parse_brain_data(const ConfigNode& node) {
  BrainDataConfig config;
  const bool has_templates = node.read(
      "templates", config.templates,
      KeyDescription("Folder of the templates of the Debian package mricron-data").type("path"));
  node.read_enum(
      "plane", config.plane,
      EnumNames<Plane>{
          {"axial", Plane::kAxial}, {"coronal", Plane::kCoronal}, {"sagittal", Plane::kSagittal}},
      "The direction in which the head is cut into slices");
  node.read("reduce", config.reduce,
            KeyDescription("Voxels in each direction that become one pixel").unit("voxels"),
            {.min = 1, .max = 8});
  node.read("slabs", config.slabs, "Runs of neighbouring slices that are held out",
            {.min = 1, .max = 50});
  node.read("slab", config.slab, KeyDescription("Length of such a run").unit("slices"),
            {.min = 1, .max = 100});
  node.read(
      "gap", config.gap,
      KeyDescription("Slices on both sides of a run that are left out altogether").unit("slices"),
      {.min = 0, .max = 50});
  node.read("class_balance", config.class_balance,
            "How much rare regions count more: 0 all pixels alike, 1 all regions alike",
            {.min = 0.0, .max = 1.0});
  node.read("augment", config.augment,
            "Whether training slices are mirrored, moved, turned and changed in brightness");
  node.finish();
  if (has_templates) {
    config.templates = node.at("templates").as_path().string();
    if (!std::filesystem::is_directory(config.templates))
      node.at("templates").fail("data.templates: there is no folder " + config.templates);
  }
  return config;
}

}  // namespace weft::apps

#include "apps/data/subset_config.h"

#include <filesystem>

#include "apps/data/chosen_rows.h"

namespace weft::apps {

std::string SubsetConfig::description() const {
  return is_all() ? "all" : folder.empty() ? "a random part" : "those in " + folder;
}

SubsetConfig read_subset(const ConfigNode& data) {
  SubsetConfig config;
  const auto subset = data.find(
      "subset", KeyDescription("The rows to train on: the folder of a selection, or a random "
                               "part; without it all rows")
                    .alternative("path"));
  if (!subset) return config;
  if (subset->kind() == ConfigNode::Kind::kMap) {
    subset->require("random", config.random_fraction, "Share of the rows, drawn by chance",
                    {.min = 1e-6, .max = 1.0});
    subset->read("seed", config.seed, "Start of the random numbers that draw them");
    return config;
  }
  config.folder = subset->as_path().string();
  if (!std::filesystem::is_regular_file(ChosenRows::description_in(config.folder)))
    subset->record_problem("data.subset: there is no " +
                           ChosenRows::description_in(config.folder).string() +
                           "; expected the folder of a selection, or {random: FRACTION}");
  return config;
}

}  // namespace weft::apps

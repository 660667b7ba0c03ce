#pragma once

#include <cstdint>
#include <string>

#include "core/codec/codec.h"
#include "core/config/config_node.h"

namespace weft::apps {

/// `data.subset`: the rows of the training part that may be drawn. A value.
struct SubsetConfig {
  std::string folder = {};     ///< Folder of chosen rows. Empty if there is none.
  double random_fraction = 1;  ///< Share of the rows to draw at random if there is no folder.
  std::uint64_t seed = 1;      ///< Seed of the random share.

  /// Returns a text for users: "those in runs/chosen", "a random part", "all".
  std::string description() const;
  bool is_all() const { return folder.empty() && random_fraction == 1; }
  static constexpr auto fields =
      weft::fields(&SubsetConfig::folder, &SubsetConfig::random_fraction, &SubsetConfig::seed);
  friend bool operator==(const SubsetConfig&, const SubsetConfig&) = default;
};

/// Reads `subset` of a `data:` section: the folder of chosen rows, or a random share to compare
/// them with:
///
///   data: {subset: runs/chosen}
///   data: {subset: {random: 0.1, seed: 7}}
///
/// Notes errors in the node. Makes a path absolute.
SubsetConfig read_subset(const ConfigNode& data);

}  // namespace weft::apps

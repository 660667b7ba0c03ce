#pragma once

#include <cstdint>
#include <string>

#include "core/codec/codec.h"
#include "core/config/config_node.h"

namespace weft::apps {

/// `data.subset`: which rows of the training part may be drawn. A value.
struct SubsetConfig {
  std::string folder = {};     ///< Of chosen rows; empty: none.
  double random_fraction = 1;  ///< Of the rows, where there is no folder.
  std::uint64_t seed = 1;      ///< Of the random part.

  /// For people: "those in runs/chosen", "a random part", "all".
  std::string description() const;
  bool is_all() const { return folder.empty() && random_fraction == 1; }
  static constexpr auto fields =
      weft::fields(&SubsetConfig::folder, &SubsetConfig::random_fraction, &SubsetConfig::seed);
  friend bool operator==(const SubsetConfig&, const SubsetConfig&) = default;
};

/// Reads `subset` of a `data:` section, which is the folder of chosen rows, or the random part to
/// compare them with:
///
///   data: {subset: runs/chosen}
///   data: {subset: {random: 0.1, seed: 7}}
///
/// Notes what is wrong; a path is absolute then.
SubsetConfig read_subset(const ConfigNode& data);

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <string>

#include "core/codec/codec.h"
#include "core/config/config_node.h"

namespace weft::apps {

/// The direction in which a head is cut into slices.
enum class Plane : std::uint8_t { kAxial, kCoronal, kSagittal };

/// The `data:` section of an app that learns to name the regions of a brain. A value.
///
/// The slices of the plane that show brain are numbered; `slabs` runs of `slab` neighbouring ones,
/// spread evenly, are held out, and `gap` slices on both sides of each run are left out altogether:
/// neighbouring slices are nearly the same picture.
struct BrainDataConfig {
  std::string templates = "/usr/share/mricron/templates";  ///< Of the Debian package mricron-data.
  Plane plane = Plane::kAxial;
  int reduce = 2;  ///< So many voxels in each direction become one pixel.
  int slabs = 3;
  int slab = 8;
  int gap = 4;
  /// A pixel counts (frequency of its class)^-class_balance: 0 all alike, 1 every class alike.
  double class_balance = 0.5;
  /// Training slices are mirrored, moved, turned and their brightness changed, by chance.
  bool augment = true;

  static constexpr auto fields =
      weft::fields(&BrainDataConfig::templates, &BrainDataConfig::plane, &BrainDataConfig::reduce,
                   &BrainDataConfig::slabs, &BrainDataConfig::slab, &BrainDataConfig::gap,
                   &BrainDataConfig::class_balance, &BrainDataConfig::augment);
  friend bool operator==(const BrainDataConfig&, const BrainDataConfig&) = default;
};

/// Reads and finishes the section.
BrainDataConfig parse_brain_data(const ConfigNode& node);

}  // namespace weft::apps

template <>
struct weft::last_enumerator<weft::apps::Plane> {
  static constexpr auto kValue = weft::apps::Plane::kSagittal;
};

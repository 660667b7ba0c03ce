#pragma once

#include <cstdint>
#include <string>

#include "core/codec/codec.h"
#include "core/config/config_node.h"

namespace weft::apps {

/// Plane in which a head is cut into slices.
enum class Plane : std::uint8_t { kAxial, kCoronal, kSagittal };

/// `data:` section of an app that segments the regions of a brain. A value.
///
/// The slices that show brain are numbered along the plane's axis. `slabs` evenly spread runs of
/// `slab` adjacent slices are held out. `gap` slices on both sides of each run are not used at all,
/// as adjacent slices are nearly the same picture.
struct BrainDataConfig {
  std::string templates = "/usr/share/mricron/templates";  ///< Folder of the Debian package
                                                           ///< mricron-data.
  Plane plane = Plane::kAxial;
  int reduce = 2;  ///< Voxels in each direction that become one pixel.
  int slabs = 3;
  int slab = 8;
  int gap = 4;
  /// Exponent of the loss weight (frequency of the pixel's class)^-class_balance. 0 weights all
  /// pixels alike, 1 gives every class the same total weight.
  double class_balance = 0.5;
  /// Randomly mirrors, shifts, scales and rotates training slices and changes their brightness.
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

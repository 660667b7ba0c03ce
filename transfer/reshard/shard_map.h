#pragma once

#include <string>
#include <vector>

#include "core/tensor/region.h"
#include "core/tensor/region_codec.h"
#include "transfer/topology/topology.h"

namespace weft::transfer {

/// Part of a tensor that one device holds: a dense row-major box.
struct Shard {
  DeviceId device;
  Region region;

  friend bool operator==(const Shard&, const Shard&) = default;
  static constexpr auto fields = weft::fields(&Shard::device, &Shard::region);
};

/// Sharding of a tensor over a set of devices. A replica is the same region on several devices.
/// Regions may be uneven. A device holds at most one region. In source maps, regions must be equal
/// or disjoint and cover every byte.
struct ShardMap {
  Shape shape;
  std::vector<Shard> shards;

  /// Returns the region that `device` holds, or nullptr.
  const Region* region_of(DeviceId device) const;

  /// Throws Error(kInvalidArgument) if a region is outside the shape, a device appears twice, or
  /// there is no shard. `name` identifies the map in the message.
  void validate(const std::string& name) const;

  friend bool operator==(const ShardMap&, const ShardMap&) = default;
  static constexpr auto fields = weft::fields(&ShardMap::shape, &ShardMap::shards);
};

/// Formats a map, such as "[8,4]: 0=[0:4,0:4] 1=[4:8,0:4]".
std::string to_string(const ShardMap& map);

}  // namespace weft::transfer

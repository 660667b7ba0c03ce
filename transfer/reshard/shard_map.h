#pragma once

#include <string>
#include <vector>

#include "core/tensor/region.h"
#include "core/tensor/region_codec.h"
#include "transfer/topology/topology.h"

namespace weft::transfer {

/// What one device holds of a tensor: a dense row-major box.
struct Shard {
  DeviceId device;
  Region region;

  friend bool operator==(const Shard&, const Shard&) = default;
  static constexpr auto fields = weft::fields(&Shard::device, &Shard::region);
};

/// How a tensor lies on a set of devices. A replica is the same region on several devices; regions
/// may be uneven. A device holds at most one region. Source maps must hold every byte once (regions
/// equal or disjoint).
struct ShardMap {
  Shape shape;
  std::vector<Shard> shards;

  /// What `device` holds, or nullptr.
  const Region* region_of(DeviceId device) const;

  /// Throws Error(kInvalidArgument) when a region is outside the shape, a device comes twice, or
  /// there is no shard. `name` says in the message which map this is.
  void validate(const std::string& name) const;

  friend bool operator==(const ShardMap&, const ShardMap&) = default;
  static constexpr auto fields = weft::fields(&ShardMap::shape, &ShardMap::shards);
};

/// "[8,4]: 0=[0:4,0:4] 1=[4:8,0:4]".
std::string to_string(const ShardMap& map);

}  // namespace weft::transfer

#pragma once

#include <vector>

#include "transfer/reshard/shard_map.h"

namespace weft::transfer {

/// Mesh of devices, and the mesh axes that cut each dimension of a tensor.
///
/// Example: `extents` {2, 4} and `axes` {{0, 1}, {}} are 8 devices, with dimension 0 cut in 8 (axis
/// 0 outermost) and dimension 1 whole. Axes that cut no dimension replicate. Devices are numbered
/// from `first_device`, the last axis fastest.
struct MeshSharding {
  std::uint32_t first_device = 0;
  std::vector<int> extents;
  std::vector<std::vector<int>> axes;
};

/// Returns the shards of a tensor of `shape`. Part i of n of an extent e is [i * e / n, (i + 1) * e
/// / n), so sizes may be uneven. Throws Error(kInvalidArgument) if a dimension has fewer elements
/// than parts.
ShardMap shard_by_mesh(const Shape& shape, const MeshSharding& cut);

}  // namespace weft::transfer

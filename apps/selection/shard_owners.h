#pragma once

#include <cstdint>
#include <vector>

#include "apps/selection/point_store.h"

namespace weft::apps {

/// Assignment of the shards of a ground set to ranks. Each rank owns adjacent shards, and the
/// numbers of shards of two ranks differ by at most 1. A value.
struct ShardOwners {
  ShardLayout layout;
  std::uint32_t ranks = 1;

  std::uint32_t owner_of_shard(std::uint32_t shard) const {
    return static_cast<std::uint32_t>(std::uint64_t{shard} * ranks / layout.shards);
  }
  std::uint32_t owner_of(PointId point) const { return owner_of_shard(layout.shard_of(point)); }
  /// Returns the first shard of a rank. `rank` may be `ranks`, for the end.
  std::uint32_t first_shard_of(std::uint32_t rank) const {
    return static_cast<std::uint32_t>((std::uint64_t{rank} * layout.shards + ranks - 1) / ranks);
  }
  /// Returns the ascending shards of a rank. A rank has none if there are more ranks than shards.
  std::vector<std::uint32_t> shards_of(std::uint32_t rank) const;
};

}  // namespace weft::apps

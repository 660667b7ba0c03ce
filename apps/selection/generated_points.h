#pragma once

#include <cstdint>
#include <filesystem>

#include "apps/selection/point_store.h"
#include "core/codec/codec.h"

namespace weft::apps {

/// Synthetic points of any number, for experiments larger than the available data sets.
struct GeneratedPoints {
  std::uint64_t points = 1'000'000;
  std::uint32_t shards = ShardLayout::kShards;
  std::uint64_t seed = 1;
  std::uint32_t neighbours = 10;
  /// Points per group. Each group has vectors of its own, and all edges lie inside groups.
  std::uint32_t group = 500;

  ShardLayout layout() const { return {points, shards}; }
  static constexpr auto fields =
      weft::fields(&GeneratedPoints::points, &GeneratedPoints::shards, &GeneratedPoints::seed,
                   &GeneratedPoints::neighbours, &GeneratedPoints::group);
};

/// Writes one shard and returns the number of its directed edges. Throws Error(kInvalidArgument)
/// for an invalid request. Throws as PointShardWriter does.
std::uint64_t generate_shard(const std::filesystem::path& folder, const GeneratedPoints& request,
                             std::uint32_t shard);

/// Writes all shards and the index. Each group has normally distributed vectors of eight numbers.
/// Edges connect nearest neighbours, kept if either side lists them (15 for 10 neighbours on
/// average). Their similarity is 1 / (1 + d^2 / 8) at the distance d. Utilities are uniform.
/// Depends on the request alone. Throws as PointShardWriter does.
void generate_points(const std::filesystem::path& folder, const GeneratedPoints& request);

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <filesystem>

#include "apps/selection/point_store.h"
#include "core/codec/codec.h"

namespace weft::apps {

/// Points of which as many as are wanted can be made, to try what no real data set at hand is large
/// enough for.
struct GeneratedPoints {
  std::uint64_t points = 1'000'000;
  std::uint32_t shards = ShardLayout::kShards;
  std::uint64_t seed = 1;
  std::uint32_t neighbours = 10;
  /// Points lie in groups of so many, each with vectors of its own: all edges lie inside.
  std::uint32_t group = 500;

  ShardLayout layout() const { return {points, shards}; }
  static constexpr auto fields =
      weft::fields(&GeneratedPoints::points, &GeneratedPoints::shards, &GeneratedPoints::seed,
                   &GeneratedPoints::neighbours, &GeneratedPoints::group);
};

/// Writes one shard of them, and gives the number of its directed edges. Throws
/// Error(kInvalidArgument) for a request that makes no sense, and what PointShardWriter throws.
std::uint64_t generate_shard(const std::filesystem::path& folder, const GeneratedPoints& request,
                             std::uint32_t shard);

/// Writes all of them: in each group vectors of eight numbers, normally distributed; the nearest
/// neighbours, kept if either side lists them (15 of 10 on average), of similarity
/// 1 / (1 + d^2 / 8) at the distance d; utilities uniform.
/// A function of the request alone. Throws what PointShardWriter throws.
void generate_points(const std::filesystem::path& folder, const GeneratedPoints& request);

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "apps/selection/objective.h"
#include "core/spill/spill_file.h"

namespace weft::apps {

/// Edge, as seen from its other end.
struct Neighbour {
  PointId id = 0;
  std::uint16_t similarity = 0;  ///< Fraction of 65535.
  friend auto operator<=>(const Neighbour&, const Neighbour&) = default;
};

/// Stored point. `neighbours` are in the order of their ids.
struct StoredPoint {
  PointId id = 0;
  std::uint16_t utility = 0;  ///< Fraction of 65535.
  std::span<const Neighbour> neighbours;
  bool is_copy = false;  ///< True if a point of higher rank has the same vector.
};

/// Returns the gain of choosing the point when nothing is chosen. Copies come after all other
/// points: their gain is reduced by kCopyPenalty.
std::int64_t gain_of(const StoredPoint& point, const Objective& objective);
/// Exceeds the largest loss that similarities can cause to a point's gain.
inline constexpr std::int64_t kCopyPenalty = std::int64_t{1} << 48;

/// Kind of a point: the first one with its vector, or a copy.
enum class PointKind : std::uint8_t { kFirst, kCopy };

/// Division of a ground set into shards: ranges of ids of nearly equal size. Depends on the data
/// alone, not on the number of workers. A value.
struct ShardLayout {
  static constexpr std::uint32_t kShards = 64;

  std::uint64_t points = 0;
  std::uint32_t shards = kShards;

  /// Returns the first id of a shard. `shard` may be `shards`, for the end.
  std::uint64_t first_of(std::uint32_t shard) const {
    return points / shards * shard + points % shards * shard / shards;
  }
  std::uint32_t shard_of(PointId id) const;
  friend bool operator==(const ShardLayout&, const ShardLayout&) = default;
};

/// Writer of one shard, with its points in the order of their ids. Not thread-safe.
class PointShardWriter final {
 public:
  PointShardWriter(const std::filesystem::path& folder, const ShardLayout& layout,
                   std::uint32_t shard);

  /// Appends the next point. Throws Error(kInvalidArgument), which names the point, if neighbours
  /// do not ascend, are out of range, or include the point itself.
  void append(std::uint16_t utility, std::span<const Neighbour> neighbours,
              PointKind kind = PointKind::kFirst);
  /// Publishes the shard. Throws Error(kInvalidArgument) unless it has all points.
  void commit();
  std::uint64_t num_edges() const { return edges_; }  ///< Number of directed edges.

 private:
  const ShardLayout layout_;
  const std::uint32_t shard_;
  std::uint64_t next_;
  std::uint64_t edges_ = 0;
  SpillWriter file_;
};

/// Reader of one shard. Not thread-safe.
class PointShardReader final {
 public:
  /// Opens the shard. Throws as SpillReader does.
  PointShardReader(const std::filesystem::path& folder, const ShardLayout& layout,
                   std::uint32_t shard);
  /// Returns the next point, valid until the next call. Null after the last one. Throws
  /// Error(kDataLoss), which names the file, if it is damaged or is not the shard.
  const StoredPoint* next();
  /// Skips the next point, which must exist, without reading its neighbours.
  void skip();

 private:
  /// Reads the next point's id and utility. Returns the number of neighbours that follow in the
  /// block. Null after the last point.
  std::optional<std::size_t> begin_point();
  void check(bool is_right) const;

  const std::filesystem::path path_;
  const ShardLayout layout_;
  const std::uint32_t shard_;
  std::uint64_t next_;
  SpillReader file_;
  std::span<const std::byte> block_;
  StoredPoint point_;
  std::vector<Neighbour> neighbours_;
};

/// Immutable ground set with its neighbour graph on disk: a file per shard (core/spill), and
/// points.json, which is written when all shards exist. A point is stored as id u32, utility u16,
/// degree u16, then id u32 and similarity u16 of each neighbour: 96 bytes at a degree of 15. The
/// degree of a copy is above 65279. Callable from any thread.
class PointStore final {
 public:
  /// Opens a store. Throws Error(kNotFound) or Error(kDataLoss), which names the file.
  explicit PointStore(std::filesystem::path folder);

  const ShardLayout& layout() const { return layout_; }
  std::uint64_t num_edges() const { return edges_; }  ///< Number of directed edges.
  PointShardReader read(std::uint32_t shard) const { return {folder_, layout_, shard}; }
  /// Loads the whole graph into memory: about 40 bytes a point and 6 an edge.
  PointGraph load(const Objective& objective) const;

 private:
  std::filesystem::path folder_;
  ShardLayout layout_;
  std::uint64_t edges_ = 0;
};

/// Removes the index, so that the folder is not a store while its shards are written again.
void remove_store_index(const std::filesystem::path& folder);
/// Writes the index after all shards are committed.
void write_store_index(const std::filesystem::path& folder, const ShardLayout& layout,
                       std::uint64_t edges);

}  // namespace weft::apps

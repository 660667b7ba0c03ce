#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "apps/selection/objective.h"
#include "core/spill/spill_file.h"

namespace weft::apps {

/// The end of an edge, as its other end sees it.
struct Neighbour {
  PointId id = 0;
  std::uint16_t similarity = 0;  ///< Fraction of 65535.
  friend auto operator<=>(const Neighbour&, const Neighbour&) = default;
};

/// A point as it is stored. `neighbours`: by ascending id.
struct StoredPoint {
  PointId id = 0;
  std::uint16_t utility = 0;  ///< Fraction of 65535.
  std::span<const Neighbour> neighbours;
  bool is_copy = false;  ///< Another point with the same vector comes before it.
};

/// What choosing the point adds as long as nothing is chosen. A copy comes behind every point that
/// is none: its gain is less by kBehindAll.
std::int64_t gain_of(const StoredPoint& point, const Objective& objective);
/// More than all similarities of a point with the most neighbours can take from its gain.
inline constexpr std::int64_t kBehindAll = std::int64_t{1} << 48;

/// Whether a point is the first with its vector.
enum class PointKind : std::uint8_t { kFirst, kCopy };

/// How a ground set is cut into shards: ranges of ids, as equal as can be. It follows from the data
/// alone, never from the number of workers. A value.
struct ShardLayout {
  static constexpr std::uint32_t kShards = 64;

  std::uint64_t points = 0;
  std::uint32_t shards = kShards;

  /// Also of the shard behind the last one.
  std::uint64_t first_of(std::uint32_t shard) const {
    return points / shards * shard + points % shards * shard / shards;
  }
  std::uint32_t shard_of(PointId id) const;
  friend bool operator==(const ShardLayout&, const ShardLayout&) = default;
};

/// Writes one shard: its points in the order of their ids. One thread.
class PointShardWriter final {
 public:
  PointShardWriter(const std::filesystem::path& folder, const ShardLayout& layout,
                   std::uint32_t shard);

  /// The point after the last one. Throws Error(kInvalidArgument), which names the point, for
  /// neighbours that are not ascending, are the point itself, or are none of the points.
  void append(std::uint16_t utility, std::span<const Neighbour> neighbours,
              PointKind kind = PointKind::kFirst);
  /// The shard is there from now on. Throws Error(kInvalidArgument) unless it has all points.
  void commit();
  std::uint64_t num_edges() const { return edges_; }  ///< Directed.

 private:
  const ShardLayout layout_;
  const std::uint32_t shard_;
  std::uint64_t next_;
  std::uint64_t edges_ = 0;
  SpillWriter file_;
};

/// Reads one shard. One thread.
class PointShardReader final {
 public:
  /// Throws what SpillReader throws.
  PointShardReader(const std::filesystem::path& folder, const ShardLayout& layout,
                   std::uint32_t shard);
  /// The point after the last one, valid until the next call; nothing behind the last. Throws
  /// Error(kDataLoss) naming the file if it is damaged, or not the shard.
  const StoredPoint* next();
  /// Passes over the point after the last one, which must be there: its neighbours are not read.
  void skip();

 private:
  /// Reads id and utility of the point after the last one: how many neighbours follow in the
  /// block. Nothing behind the last point.
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

/// A ground set with its neighbour graph on disk, immutable: a file per shard (core/spill; a point
/// is id u32, utility u16, degree u16, then id u32 and similarity u16 of each neighbour: 96 bytes
/// at a degree of 15; the degree of a copy is above 65279), and points.json, which says that all
/// are there. Any thread.
class PointStore final {
 public:
  /// Throws Error(kNotFound) or Error(kDataLoss) naming the file.
  explicit PointStore(std::filesystem::path folder);

  const ShardLayout& layout() const { return layout_; }
  std::uint64_t num_edges() const { return edges_; }  ///< Directed.
  PointShardReader read(std::uint32_t shard) const { return {folder_, layout_, shard}; }
  /// All of it in memory: about 40 bytes a point and 6 an edge.
  PointGraph load(const Objective& objective) const;

 private:
  std::filesystem::path folder_;
  ShardLayout layout_;
  std::uint64_t edges_ = 0;
};

/// Before shards are written where a store may have been: it is none until its index is written.
void remove_store_index(const std::filesystem::path& folder);
/// Once all shards are committed.
void write_store_index(const std::filesystem::path& folder, const ShardLayout& layout,
                       std::uint64_t edges);

}  // namespace weft::apps

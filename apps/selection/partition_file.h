#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "apps/selection/objective.h"
#include "apps/selection/point_store.h"
#include "apps/selection/rounds.h"
#include "core/codec/bytes.h"

namespace weft::apps {

/// Writes the record of a point for its partition: id u32, gain i64, number of edges u16, then id
/// u32 and similarity u16 of each neighbour that would be in the same partition.
void write_partition_record(ByteWriter& writer, const StoredPoint& point, std::int64_t gain,
                            const PartitionAssigner& partition_of);

/// Head of the first record of `bytes`, and its length. first_partition_record() throws
/// Error(kDataLoss) if the record is truncated.
struct PartitionRecord {
  PointId id = 0;
  std::uint32_t edges = 0;
  std::size_t bytes = 0;
};
PartitionRecord first_partition_record(std::span<const std::byte> bytes);

/// Loads a spilled partition with the edges among its points. Rows are in the order of arrival.
/// `points` and `edges` are the spilled numbers, for which memory is reserved.
PointGraph load_partition(const std::filesystem::path& path, std::uint64_t points,
                          std::uint64_t edges);

}  // namespace weft::apps

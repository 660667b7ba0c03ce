#include "apps/selection/partition_file.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace weft::apps {
namespace {

constexpr std::size_t kRecordBytes = 14, kRecordEdgeBytes = 6;

}  // namespace

void write_partition_record(ByteWriter& writer, const StoredPoint& point, std::int64_t gain,
                            const PartitionAssigner& partition_of) {
  const std::uint32_t own = partition_of(point.id);
  std::uint16_t edges = 0;
  for (const Neighbour& neighbour : point.neighbours)
    if (partition_of.partitions() == 1 || partition_of(neighbour.id) == own) ++edges;
  writer.write(point.id);
  writer.write(gain);
  writer.write(edges);
  if (edges == 0) return;
  for (const Neighbour& neighbour : point.neighbours) {
    if (partition_of.partitions() > 1 && partition_of(neighbour.id) != own) continue;
    writer.write(neighbour.id);
    writer.write(neighbour.similarity);
  }
}

PartitionRecord first_partition_record(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  PartitionRecord record;
  record.id = reader.read<PointId>();
  reader.read<std::int64_t>();
  record.edges = reader.read<std::uint16_t>();
  record.bytes = kRecordBytes + kRecordEdgeBytes * record.edges;
  if (record.bytes > bytes.size()) reader.fail("the record of a point is truncated");
  return record;
}

PointGraph load_partition(const std::filesystem::path& path, std::uint64_t points,
                          std::uint64_t edges) {
  PointGraph graph;
  graph.ids.reserve(points);
  graph.gains.reserve(points);
  graph.first.reserve(points + 1);
  graph.neighbours.reserve(edges);
  graph.similarities.reserve(edges);
  graph.first.push_back(0);
  SpillReader file(path, SpillReader::PageCachePolicy::kKeep);
  for (auto block = file.next(); !block.empty(); block = file.next()) {
    ByteReader reader(block);
    while (reader.remaining() > 0) {
      graph.ids.push_back(reader.read<PointId>());
      graph.gains.push_back(reader.read<std::int64_t>());
      for (auto left = reader.read<std::uint16_t>(); left > 0; --left) {
        graph.neighbours.push_back(reader.read<PointId>());
        graph.similarities.push_back(reader.read<std::uint16_t>());
      }
      graph.first.push_back(graph.num_edges());
    }
  }
  // Converts neighbours' ids to rows. Drops neighbours that are not in this round.
  std::vector<std::uint32_t> by_id(graph.size());
  std::iota(by_id.begin(), by_id.end(), 0U);
  std::ranges::sort(by_id, {}, [&](std::uint32_t row) { return graph.ids[row]; });
  std::uint64_t kept = 0, begin = 0;
  for (std::uint32_t row = 0; row < graph.size(); ++row) {
    const std::uint64_t end = graph.first[row + 1];
    for (std::uint64_t edge = begin; edge < end; ++edge) {
      const PointId id = graph.neighbours[edge];
      const auto found = std::ranges::lower_bound(
          by_id, id, {}, [&](std::uint32_t other) { return graph.ids[other]; });
      if (found == by_id.end() || graph.ids[*found] != id) continue;
      graph.neighbours[kept] = *found;
      graph.similarities[kept++] = graph.similarities[edge];
    }
    begin = end;
    graph.first[row + 1] = kept;
  }
  graph.neighbours.resize(kept);
  graph.similarities.resize(kept);
  return graph;
}

}  // namespace weft::apps

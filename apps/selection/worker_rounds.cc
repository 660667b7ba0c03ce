// SelectionWorker's rounds: sends its points to partitions, and chooses in the partitions that it
// received.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "apps/selection/greedy.h"
#include "apps/selection/partition_file.h"
#include "apps/selection/selection_worker.h"
#include "apps/selection/shard_spills.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

/// Record of a point that stays, for its owner: id u32, gain i64.
constexpr std::size_t kChosenBytes = 12;

std::string partition_name(std::uint32_t partition) {
  return fmt::format("partition-{:05}", partition);
}

}  // namespace

actors::task<std::vector<PartitionSize>> SelectionWorker::send_to_partitions(
    ShuffleRequest request) {
  const Objective objective = settings_.objective();
  const PartitionAssigner partition_of(settings_.seed, request.round, request.partitions);
  const std::uint32_t ranks = port_.num_ranks();
  partitions_.clear();
  std::map<std::uint32_t, SpillWriter> files;
  for (std::uint32_t partition = port_.rank(); partition < request.partitions; partition += ranks) {
    partitions_[partition] = {partition, 0, 0};
    files.emplace(std::piecewise_construct, std::forward_as_tuple(partition),
                  std::forward_as_tuple(spill_ / partition_name(partition), settings_.spill_block));
  }
  mesh::ActorExchange exchange(
      port_, this->exchange(request.exchange), [&](const transfer::ReceivedBlock& block) {
        for (auto records = block.bytes(); !records.empty();) {
          const PartitionRecord point = first_partition_record(records);
          const std::uint32_t partition = partition_of(point.id);
          const auto size = partitions_.find(partition);
          if (size == partitions_.end())
            throw_error(ErrorCode::kDataLoss, "point {} was sent to the wrong worker", point.id);
          ++size->second.points;
          size->second.edges += point.edges;
          files.at(partition).append(records.first(point.bytes));
          records = records.subspan(point.bytes);
        }
      });
  ByteWriter record;
  for (const std::uint32_t shard : shards_) {
    const std::vector<bool> in = remaining_points(shard, request.round - 1);
    std::optional<PointBounds> bounds;
    if (settings_.use_bounding) bounds = bounds_of(shard);
    PointShardReader reader = store_->read(shard);
    for (std::uint32_t row = 0; row < in.size(); ++row) {
      if (!in[row]) {
        reader.skip();
        continue;
      }
      const StoredPoint* const point = reader.next();
      record.clear();
      write_partition_record(
          record, *point, bounds ? bounds->at_most(row) : gain_of(*point, objective), partition_of);
      const std::uint32_t rank = partition_of(point->id) % ranks;
      while (!exchange.append(rank, record.bytes())) co_await exchange.flush(rank);
    }
    ++shard_reads_;
  }
  co_await exchange.finish();
  std::vector<PartitionSize> sizes;
  for (auto& [partition, file] : files) {
    file.commit(SpillWriter::Durability::kProcess);
    sizes.push_back(partitions_.at(partition));
  }
  co_return sizes;
}

actors::task<std::uint64_t> SelectionWorker::choose(ChooseRequest request) {
  const Objective objective = settings_.objective();
  ShardSpills arrived(spill_, "chosen", layout(), kChosenBytes);
  mesh::ActorExchange exchange(
      port_, this->exchange(request.exchange),
      [&](const transfer::ReceivedBlock& block) { arrived.add(block.bytes()); });
  ByteWriter record;
  for (const auto& [partition, size] : partitions_) {
    const std::filesystem::path path = spill_ / partition_name(partition);
    const PointGraph graph = load_partition(path, size.points, size.edges);
    std::filesystem::remove(path);
    for (const ChosenPoint& point :
         choose_greedily(graph, objective, request.quotas.at(partition), settings_.seed)) {
      const PointId id = graph.ids[point.row];
      record.clear();
      record.write(id);
      record.write(point.gain);
      const std::uint32_t rank = owner_of_shard(layout().shard_of(id));
      while (!exchange.append(rank, record.bytes())) co_await exchange.flush(rank);
    }
  }
  co_await exchange.finish();
  arrived.commit();
  std::uint64_t stay = 0;
  for (const std::uint32_t shard : shards_) {
    const std::uint32_t rows = rows_of(shard);
    const std::uint64_t first = layout().first_of(shard);
    std::vector<std::byte> bits((rows + 7) / 8);
    std::vector<std::pair<std::uint32_t, std::int64_t>> gains;
    arrived.drain(shard, [&](ByteReader& reader) {
      const auto row = static_cast<std::uint32_t>(reader.read<PointId>() - first);
      const std::byte bit{static_cast<unsigned char>(1U << (row % 8))};
      if ((bits.at(row / 8) & bit) != std::byte{0})
        throw_error(ErrorCode::kDataLoss, "point {} was chosen twice", first + row);
      bits[row / 8] |= bit;
      ++stay;
      if (request.last) gains.emplace_back(row, reader.read<std::int64_t>());
    });
    write_state(file("alive", request.round, shard), bits);
    if (!request.last) continue;
    std::ranges::sort(gains);
    ByteWriter by_row(8 * gains.size());
    for (const auto& [row, gain] : gains) by_row.write(gain);
    write_state(file("gains", request.round, shard), by_row.bytes());
  }
  co_return stay;
}

}  // namespace weft::apps

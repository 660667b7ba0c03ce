#include "apps/selection/internal/partition_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "apps/selection/greedy.h"
#include "apps/selection/partition_file.h"
#include "core/base/error.h"
#include "core/spill/spill_file.h"

namespace weft::apps {
namespace {

/// Record of a point that stays, for its owner: id u32, gain i64.
constexpr std::size_t kChosenBytes = 12;

}  // namespace

std::filesystem::path PartitionRounds::partition_file(std::uint32_t partition) const {
  return session_.spill_folder() / fmt::format("partition-{:05}", partition);
}

actors::task<std::vector<PartitionSize>> PartitionRounds::send_points(ShuffleRequest request) {
  const PartitionAssigner partition_of(settings_.seed, request.round, request.partitions);
  partitions_.clear();
  std::map<std::uint32_t, SpillWriter> files;
  for (std::uint32_t partition = session_.rank(); partition < request.partitions;
       partition += session_.num_ranks()) {
    partitions_[partition] = {partition, 0, 0};
    files.emplace(std::piecewise_construct, std::forward_as_tuple(partition),
                  std::forward_as_tuple(partition_file(partition), settings_.spill_block));
  }
  mesh::ActorExchange exchange(session_.port(),
                               {.number = request.exchange, .budget = settings_.exchange_budget},
                               [&](const transfer::ReceivedBlock& block) {
                                 for (auto records = block.bytes(); !records.empty();) {
                                   const PartitionRecord point = first_partition_record(records);
                                   const std::uint32_t partition = partition_of(point.id);
                                   const auto size = partitions_.find(partition);
                                   if (size == partitions_.end())
                                     throw_error(ErrorCode::kDataLoss,
                                                 "a worker received point {}, whose partition "
                                                 "belongs to another worker; start the run again",
                                                 point.id);
                                   ++size->second.points;
                                   size->second.edges += point.edges;
                                   files.at(partition).append(records.first(point.bytes));
                                   records = records.subspan(point.bytes);
                                 }
                               });
  for (const std::uint32_t shard : session_.shards())
    co_await send_shard(partition_of, request.round, shard, exchange);
  co_await exchange.finish();
  std::vector<PartitionSize> sizes;
  for (auto& [partition, file] : files) {
    file.commit(SpillWriter::CommitDurability::kProcess);
    sizes.push_back(partitions_.at(partition));
  }
  co_return sizes;
}

actors::task<> PartitionRounds::send_shard(const PartitionAssigner& partition_of,
                                           std::uint32_t round, std::uint32_t shard,
                                           mesh::ActorExchange& exchange) {
  const Objective objective = settings_.objective();
  const std::vector<bool> in = state_.remaining_points(shard, round - 1);
  std::optional<PointBounds> bounds;
  if (settings_.use_bounding) bounds = state_.read_bounds(shard);
  ByteWriter record;
  PointShardReader reader = store_.read(shard);
  for (std::uint32_t row = 0; row < in.size(); ++row) {
    if (!in[row]) {
      reader.skip();
      continue;
    }
    const StoredPoint* const point = reader.next();
    record.clear();
    write_partition_record(
        record, *point, bounds ? bounds->at_most(row) : gain_of(*point, objective), partition_of);
    const std::uint32_t rank = partition_of(point->id) % session_.num_ranks();
    while (!exchange.append(rank, record.bytes())) co_await exchange.flush(rank);
  }
  ++session_.counters().shard_reads;
}

actors::task<std::uint64_t> PartitionRounds::choose(ChooseRequest request) {
  PointShuffle chosen(session_, {.number = request.exchange, .budget = settings_.exchange_budget},
                      "chosen", kChosenBytes);
  for (const auto& [partition, size] : partitions_)
    co_await choose_in(size, request.quotas.at(partition), chosen);
  co_await chosen.finish();
  std::uint64_t stay = 0;
  for (const std::uint32_t shard : session_.shards()) stay += store_chosen(request, shard, chosen);
  co_return stay;
}

actors::task<> PartitionRounds::choose_in(const PartitionSize& partition, std::uint64_t quota,
                                          PointShuffle& chosen) {
  const std::filesystem::path path = partition_file(partition.partition);
  const PointGraph graph = load_partition(path, partition.points, partition.edges);
  std::filesystem::remove(path);
  ByteWriter record;
  for (const ChosenPoint& point :
       choose_greedily(graph, settings_.objective(), quota, settings_.seed)) {
    record.clear();
    record.write(graph.ids[point.row]);
    record.write(point.gain);
    while (!chosen.append(record)) co_await chosen.flush();
  }
}

std::uint64_t PartitionRounds::store_chosen(const ChooseRequest& request, std::uint32_t shard,
                                            PointShuffle& chosen) const {
  const std::uint64_t first = session_.first_of(shard);
  std::uint64_t stay = 0;
  std::vector<bool> remaining(session_.rows_of(shard));
  std::vector<std::pair<std::uint32_t, std::int64_t>> by_row;
  chosen.drain(shard, [&](ByteReader& reader) {
    const auto row = static_cast<std::uint32_t>(reader.read<PointId>() - first);
    if (remaining.at(row))
      throw_error(ErrorCode::kDataLoss,
                  "point {} was chosen by two partitions; start the run again", first + row);
    remaining[row] = true;
    ++stay;
    if (request.last) by_row.emplace_back(row, reader.read<std::int64_t>());
  });
  state_.write_remaining_points(shard, request.round, remaining);
  if (!request.last) return stay;
  std::ranges::sort(by_row);
  std::vector<std::int64_t> gains;
  gains.reserve(by_row.size());
  for (const auto& [row, gain] : by_row) gains.push_back(gain);
  state_.write_gains(shard, request.round, gains);
  return stay;
}

}  // namespace weft::apps

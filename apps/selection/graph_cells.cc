// GraphWorker's approximate search: cells, vectors sent to the cells' owners, and results sent
// back.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "apps/selection/centroids.h"
#include "apps/selection/graph_worker.h"
#include "apps/selection/internal/cell_group.h"
#include "apps/selection/shard_spills.h"
#include "core/base/error.h"
#include "core/spill/spill_file.h"

namespace weft::apps {
namespace {

constexpr std::uint64_t kCentroidSample = ~std::uint64_t{2};
constexpr std::size_t kAssignedRows = 1024;  ///< Points that are assigned to cells at a time.
constexpr std::uint32_t kNoCell = ~std::uint32_t{0};
/// Maximum number of open files, and memory of all their blocks.
constexpr std::uint64_t kMostGroups = 512, kGroupBlocks = std::uint64_t{16} << 20;

}  // namespace

actors::task<> GraphWorker::train(TrainRequest request) {
  std::vector<std::byte> arrived;
  mesh::ActorExchange exchange(
      port_, this->exchange(request.exchange), [&](const transfer::ReceivedBlock& block) {
        arrived.insert(arrived.end(), block.bytes().begin(), block.bytes().end());
      });
  const std::string name = fmt::format("-{:05}", port_.rank());
  if (port_.rank() == request.holder) {
    const std::uint64_t count = centroid_sample(layout_.points, request.cells, dimensions_);
    const VectorBlock sample = read_sample(count, kCentroidSample);
    const std::vector<float> centroids =
        train_centroids(*vector_search().search, sample.view().vectors, request.cells);
    const VectorBlock samples = read_recall_sample();
    for (std::uint32_t rank = 0; rank < port_.num_ranks(); ++rank) {
      co_await exchange.send_block(rank, std::as_bytes(std::span(centroids)));
      co_await exchange.send_block(rank, std::as_bytes(std::span(samples.values)));
    }
  }
  co_await exchange.finish();
  const std::size_t of_samples = num_samples() * dimensions_ * sizeof(float);
  const auto [centroids, samples] = std::pair(std::span(arrived).first(arrived.size() - of_samples),
                                              std::span(arrived).last(of_samples));
  write_spilled(state_ / ("centroids" + name), centroids, SpillWriter::Durability::kProcess);
  write_spilled(state_ / ("samples" + name), samples, SpillWriter::Durability::kProcess);
  centroids_.clear();
}

std::uint32_t GraphWorker::num_groups(const ProbeRequest& request) const {
  // Half of the memory is for a group, the other half for one of its cells.
  const std::uint64_t bytes = layout_.points * (1 + request.past - request.from) * dimensions_ *
                              sizeof(float) / port_.num_ranks();
  const std::uint64_t groups = bytes / std::max<std::uint64_t>(settings_.memory / 2, 1) + 1;
  return static_cast<std::uint32_t>(std::min(groups, kMostGroups));
}

std::filesystem::path GraphWorker::group_file(std::uint32_t group) const {
  return spill_ / fmt::format("group-{:05}", group);
}

actors::task<> GraphWorker::scatter(ProbeRequest request) {
  if (centroids_.empty())
    centroids_ = read_floats(state_ / fmt::format("centroids-{:05}", port_.rank()));
  const std::uint32_t ranks = port_.num_ranks(), groups = num_groups(request);
  const std::size_t vector_bytes = dimensions_ * sizeof(float);
  std::vector<std::unique_ptr<SpillWriter>> files;
  const std::size_t block = std::clamp<std::size_t>(kGroupBlocks / groups, std::size_t{16} << 10,
                                                    SpillWriter::kBlockBytes);
  for (std::uint32_t group = 0; group < groups; ++group)
    files.push_back(std::make_unique<SpillWriter>(group_file(group), block));

  // Record of a point: id u32, its own cell u32 (kNoCell if of another rank), number of cells to
  // search u32, these cells, its vector.
  ByteWriter entry;
  mesh::ActorExchange exchange(
      port_, this->exchange(request.exchange), [&](const transfer::ReceivedBlock& block_of_points) {
        ByteReader reader(block_of_points.bytes());
        while (reader.remaining() > 0) {
          const auto id = reader.read<PointId>();
          const auto own = reader.read<std::uint32_t>();
          const auto count = reader.read<std::uint32_t>();
          const auto cells = reader.read_bytes(count * sizeof(std::uint32_t));
          const auto vector = reader.read_bytes(vector_bytes);
          const auto add = [&](std::uint32_t cell, bool is_base) {
            if (cell % ranks != port_.rank())
              throw_error(ErrorCode::kDataLoss, "point {} came to the wrong worker", id);
            entry.clear();
            CellGroup::write(entry, cell, is_base, id, vector);
            files[cell / ranks % groups]->append(entry.bytes());
          };
          if (own != kNoCell) add(own, true);
          ByteReader numbers(cells);
          for (std::uint32_t i = 0; i < count; ++i) add(numbers.read<std::uint32_t>(), false);
        }
      });
  if (exchange.block_bytes() < vector_bytes + sizeof(std::uint32_t) * (3 + request.past))
    throw_error(ErrorCode::kInvalidArgument,
                "blocks of {} bytes hold no vector of {} numbers; raise the budget of exchanges",
                exchange.block_bytes(), dimensions_);

  std::vector<std::int64_t> cells;
  std::vector<float> products;
  std::map<std::uint32_t, std::vector<std::uint32_t>> cells_of_rank;
  ByteWriter record;
  const std::size_t probes = request.past;
  for (const std::uint32_t shard : shards_) {
    for (std::uint64_t first = first_of(shard); first < first_of(shard + 1);
         first += kAssignedRows) {
      const VectorBlock points =
          read_distinct(first, std::min(first + kAssignedRows, first_of(shard + 1)));
      if (points.size() == 0) continue;
      cells.resize(points.ids.size() * probes);
      products.resize(cells.size());
      vector_search().search->top_k_products(points.view().vectors, {centroids_, dimensions_},
                                             probes, cells, products);
      for (std::size_t row = 0; row < points.ids.size(); ++row) {
        const std::span<const std::int64_t> nearest =
            std::span(cells).subspan(row * probes, probes);
        const auto own = static_cast<std::uint32_t>(nearest[0]);
        cells_of_rank.clear();
        cells_of_rank[own % ranks];
        for (const std::int64_t cell : nearest.subspan(request.from))
          cells_of_rank[static_cast<std::uint32_t>(cell) % ranks].push_back(
              static_cast<std::uint32_t>(cell));
        for (const auto& [rank, into] : cells_of_rank) {
          record.clear();
          record.write(points.ids[row]);
          record.write(rank == own % ranks ? own : kNoCell);
          record.write(static_cast<std::uint32_t>(into.size()));
          for (const std::uint32_t cell : into) record.write(cell);
          record.write_bytes(std::as_bytes(points.view().vectors[row]));
          while (!exchange.append(rank, record.bytes())) co_await exchange.flush(rank);
        }
      }
    }
  }
  co_await exchange.finish();
  for (const auto& file : files) file->commit(SpillWriter::Durability::kProcess);
}

actors::task<SearchCount> GraphWorker::search(ProbeRequest request) {
  // Record of results: the point's id and `count` neighbours. The point's own id stands for a
  // missing neighbour.
  const std::size_t record_bytes = sizeof(PointId) + settings_.count * 6;
  ShardSpills arrived(spill_, "found", layout_, record_bytes);
  mesh::ActorExchange exchange(
      port_, this->exchange(request.exchange),
      [&](const transfer::ReceivedBlock& block) { arrived.add(block.bytes()); });
  SearchCount count;
  ByteWriter record;
  for (std::uint32_t group = 0; group < num_groups(request); ++group) {
    CellGroup cells(group_file(group), dimensions_);
    std::filesystem::remove(group_file(group));
    while (const auto cell = cells.next()) {
      const auto& [bases, queries] = *cell;
      NeighbourLists lists(queries.size());
      count.pairs += bases.size() * queries.size();
      count.scans += find_nearest(*vector_search().search, settings_.rule(), queries.view(),
                                  bases.view(), lists);
      for (std::size_t row = 0; row < lists.size(); ++row) {
        const PointId id = queries.ids[row];
        record.clear();
        record.write(id);
        for (std::size_t i = 0; i < settings_.count; ++i) {
          const Neighbour neighbour = i < lists[row].size() ? lists[row][i] : Neighbour{id, 0};
          record.write(neighbour.id);
          record.write(neighbour.similarity);
        }
        const std::uint32_t rank = owner_of(id);
        while (!exchange.append(rank, record.bytes())) co_await exchange.flush(rank);
      }
    }
  }
  co_await exchange.finish();
  arrived.commit();
  for (const std::uint32_t shard : shards_) {
    NeighbourLists lists(rows_of(shard));
    if (request.from > 0) lists = lists_of(shard, request.from);
    arrived.drain(shard, [&](ByteReader& reader) {
      const auto id = reader.read<PointId>();
      std::vector<Neighbour>& list = lists.at(id - first_of(shard));
      for (std::size_t i = 0; i < settings_.count; ++i) {
        const auto neighbour = reader.read<PointId>();
        const auto similarity = reader.read<std::uint16_t>();
        // A neighbour may come twice: with ties between cells, its own cell may differ between
        // probes.
        if (neighbour != id && std::ranges::find(list, neighbour, &Neighbour::id) == list.end())
          list.push_back({neighbour, similarity});
      }
      keep_most_similar(list, settings_.count);
    });
    link_copies(shard, lists);
    write_lists(shard, request.past, lists);
  }
  co_return count;
}

}  // namespace weft::apps

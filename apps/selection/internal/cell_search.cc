#include "apps/selection/internal/cell_search.h"

#include <algorithm>
#include <map>

#include "apps/selection/centroids.h"
#include "core/base/error.h"
#include "core/codec/bytes.h"
#include "core/spill/spill_file.h"

namespace weft::apps {
namespace {

/// Purpose of point_hash(), used for nothing else.
constexpr std::uint64_t kCentroidSample = ~std::uint64_t{2};
constexpr std::size_t kAssignedRows = 1024;  ///< Points that are assigned to cells at a time.
constexpr std::uint32_t kNoCell = ~std::uint32_t{0};
constexpr std::size_t kResultBytes = 6;

/// Record of a point for a rank: id u32, its own cell u32 (kNoCell if of another rank), number of
/// cells to search u32, these cells, its vector.
void write_point(ByteWriter& record, PointId id, std::uint32_t own,
                 std::span<const std::uint32_t> cells, std::span<const float> vector) {
  record.clear();
  record.write(id);
  record.write(own);
  record.write(static_cast<std::uint32_t>(cells.size()));
  for (const std::uint32_t cell : cells) record.write(cell);
  record.write_bytes(std::as_bytes(vector));
}
std::size_t point_bytes(std::size_t cells, std::size_t dimensions) {
  return sizeof(std::uint32_t) * (3 + cells) + dimensions * sizeof(float);
}

/// Record of results: the point's id and `count` neighbours. The point's own id stands for a
/// missing neighbour.
void write_results(ByteWriter& record, PointId id, const std::vector<Neighbour>& list,
                   std::size_t count) {
  record.clear();
  record.write(id);
  for (std::size_t i = 0; i < count; ++i) {
    const Neighbour neighbour = i < list.size() ? list[i] : Neighbour{id, 0};
    record.write(neighbour.id);
    record.write(neighbour.similarity);
  }
}

}  // namespace

actors::task<> CellSearch::train(TrainRequest request) {
  std::vector<std::byte> arrived;
  mesh::ActorExchange exchange(
      session_.port(), {.number = request.exchange, .budget = settings_.exchange_budget},
      [&](const transfer::ReceivedBlock& block) {
        arrived.insert(arrived.end(), block.bytes().begin(), block.bytes().end());
      });
  if (session_.rank() == request.holder) {
    const std::uint64_t count =
        centroid_sample(input_.points(), request.cells, input_.dimensions());
    const VectorBlock sample = input_.read_vectors(
        stratified_sample(input_.points(), count, settings_.seed, kCentroidSample));
    const std::vector<float> centroids =
        train_centroids(*vector_search().search, sample.view().vectors, request.cells);
    const VectorBlock samples = recall_.read();
    for (std::uint32_t rank = 0; rank < session_.num_ranks(); ++rank) {
      co_await exchange.send_block(rank, std::as_bytes(std::span(centroids)));
      co_await exchange.send_block(rank, std::as_bytes(std::span(samples.values)));
    }
  }
  co_await exchange.finish();
  const std::size_t of_samples = recall_.size() * input_.dimensions() * sizeof(float);
  WorkerSession::write_state(centroids_file(),
                             std::span(arrived).first(arrived.size() - of_samples));
  recall_.store(std::span(arrived).last(of_samples));
  centroids_.clear();
}

std::span<const float> CellSearch::centroids() {
  if (!centroids_.empty()) return centroids_;
  const std::vector<std::byte> bytes = read_spilled(centroids_file());
  centroids_.resize(bytes.size() / sizeof(float));
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(centroids_)).begin());
  return centroids_;
}

std::uint32_t CellSearch::num_groups(const ProbeRequest& request) const {
  // Half of the memory is for a group, the other half for one of its cells.
  const std::uint64_t bytes = input_.points() * (1 + request.past - request.from) *
                              input_.dimensions() * sizeof(float) / session_.num_ranks();
  const std::uint64_t groups = bytes / std::max<std::uint64_t>(settings_.memory / 2, 1) + 1;
  return static_cast<std::uint32_t>(std::min(groups, CellGroupWriter::kMostGroups));
}

actors::task<> CellSearch::scatter(ProbeRequest request) {
  const std::uint32_t groups = num_groups(request);
  CellGroupWriter files(session_.spill_folder(), groups);
  mesh::ActorExchange exchange(
      session_.port(), {.number = request.exchange, .budget = settings_.exchange_budget},
      [&](const transfer::ReceivedBlock& block) { receive_points(block.bytes(), groups, files); });
  if (exchange.block_bytes() < point_bytes(request.past, input_.dimensions()))
    throw_error(ErrorCode::kInvalidArgument,
                "blocks of {} bytes hold no vector of {} numbers; raise the budget of exchanges",
                exchange.block_bytes(), input_.dimensions());
  for (const std::uint32_t shard : session_.shards()) {
    const std::uint64_t past = session_.first_of(shard + 1);
    for (std::uint64_t first = session_.first_of(shard); first < past; first += kAssignedRows) {
      const VectorBlock points =
          copies_.read_distinct(first, std::min(first + kAssignedRows, past));
      if (points.size() > 0) co_await send_points(points, request, exchange);
    }
  }
  co_await exchange.finish();
  files.commit();
}

void CellSearch::receive_points(std::span<const std::byte> block, std::uint32_t groups,
                                CellGroupWriter& files) const {
  const std::uint32_t ranks = session_.num_ranks();
  ByteReader reader(block);
  while (reader.remaining() > 0) {
    const auto id = reader.read<PointId>();
    const auto own = reader.read<std::uint32_t>();
    const auto count = reader.read<std::uint32_t>();
    ByteReader cells(reader.read_bytes(count * sizeof(std::uint32_t)));
    const auto vector = reader.read_bytes(input_.dimensions() * sizeof(float));
    const auto add = [&](std::uint32_t cell, bool is_base) {
      if (cell % ranks != session_.rank())
        throw_error(
            ErrorCode::kDataLoss,
            "a worker received point {}, which belongs to another worker; start the run again", id);
      files.append(cell / ranks % groups, cell, is_base, id, vector);
    };
    if (own != kNoCell) add(own, true);
    for (std::uint32_t i = 0; i < count; ++i) add(cells.read<std::uint32_t>(), false);
  }
}

actors::task<> CellSearch::send_points(const VectorBlock& points, const ProbeRequest& request,
                                       mesh::ActorExchange& exchange) {
  const std::uint32_t ranks = session_.num_ranks();
  const std::size_t probes = request.past;
  std::vector<std::int64_t> cells(points.size() * probes);
  std::vector<float> products(cells.size());
  vector_search().search->top_k_products(points.view().vectors, {centroids(), input_.dimensions()},
                                         probes, cells, products);
  std::map<std::uint32_t, std::vector<std::uint32_t>> cells_of_rank;
  ByteWriter record;
  for (std::size_t row = 0; row < points.size(); ++row) {
    const std::span<const std::int64_t> nearest = std::span(cells).subspan(row * probes, probes);
    const auto own = static_cast<std::uint32_t>(nearest[0]);
    cells_of_rank.clear();
    cells_of_rank[own % ranks];
    for (const std::int64_t cell : nearest.subspan(request.from))
      cells_of_rank[static_cast<std::uint32_t>(cell) % ranks].push_back(
          static_cast<std::uint32_t>(cell));
    for (const auto& [rank, into] : cells_of_rank) {
      write_point(record, points.ids[row], rank == own % ranks ? own : kNoCell, into,
                  points.view().vectors[row]);
      while (!exchange.append(rank, record.bytes())) co_await exchange.flush(rank);
    }
  }
}

actors::task<SearchCount> CellSearch::search(ProbeRequest request) {
  PointShuffle results(session_, {.number = request.exchange, .budget = settings_.exchange_budget},
                       "found", sizeof(PointId) + settings_.count * kResultBytes);
  SearchCount count;
  for (std::uint32_t group = 0; group < num_groups(request); ++group) {
    const SearchCount of_group = co_await search_group(group, results);
    count.pairs += of_group.pairs;
    count.scans += of_group.scans;
  }
  co_await results.finish();
  for (const std::uint32_t shard : session_.shards()) store_results(request, shard, results);
  co_return count;
}

actors::task<SearchCount> CellSearch::search_group(std::uint32_t group,
                                                   PointShuffle& results) const {
  CellGroup cells(session_.spill_folder(), group, input_.dimensions());
  SearchCount count;
  ByteWriter record;
  while (const auto cell = cells.next()) {
    const auto& [bases, queries] = *cell;
    NeighbourLists lists(queries.size());
    count.pairs += bases.size() * queries.size();
    count.scans += find_nearest(*vector_search().search, settings_.rule(), queries.view(),
                                bases.view(), lists);
    for (std::size_t row = 0; row < lists.size(); ++row) {
      write_results(record, queries.ids[row], lists[row], settings_.count);
      while (!results.append(record)) co_await results.flush();
    }
  }
  co_return count;
}

void CellSearch::store_results(const ProbeRequest& request, std::uint32_t shard,
                               PointShuffle& results) {
  NeighbourLists lists(session_.rows_of(shard));
  if (request.from > 0) lists = found_.read(shard, request.from);
  results.drain(shard, [&](ByteReader& reader) {
    const auto id = reader.read<PointId>();
    std::vector<Neighbour>& list = lists.at(id - session_.first_of(shard));
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
  copies_.link(shard, lists);
  found_.write(shard, request.past, lists);
}

}  // namespace weft::apps

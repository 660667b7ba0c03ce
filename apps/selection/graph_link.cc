// GraphWorker's lists of neighbours: files between phases, and shards of the store once both ends
// of every edge have it.
#include <fmt/format.h>

#include <algorithm>

#include "apps/selection/graph_worker.h"
#include "apps/selection/shard_spills.h"
#include "core/base/error.h"
#include "core/spill/spill_file.h"

namespace weft::apps {
namespace {

/// Record of an edge for its other end: id there u32, id here u32, similarity u16.
constexpr std::size_t kEdgeBytes = 10;
/// Rows of given neighbours to read at a time.
constexpr std::size_t kReadLists = 4096;

}  // namespace

void GraphWorker::write_lists(std::uint32_t shard, std::uint32_t probes,
                              const NeighbourLists& lists) const {
  ByteWriter bytes;
  for (const std::vector<Neighbour>& list : lists) {
    bytes.write(static_cast<std::uint32_t>(list.size()));
    for (const Neighbour& neighbour : list) {
      bytes.write(neighbour.id);
      bytes.write(neighbour.similarity);
    }
  }
  write_spilled(state_file("lists", probes, shard), bytes.bytes(),
                SpillWriter::Durability::kProcess);
}

NeighbourLists GraphWorker::lists_of(std::uint32_t shard, std::uint32_t probes) const {
  if (neighbours_) return given_lists(shard);
  const std::vector<std::byte> bytes = read_spilled(state_file("lists", probes, shard));
  ByteReader reader(bytes);
  NeighbourLists lists(rows_of(shard));
  for (std::vector<Neighbour>& list : lists) {
    list.resize(std::min<std::size_t>(reader.read<std::uint32_t>(), settings_.count));
    for (Neighbour& neighbour : list) {
      neighbour.id = reader.read<PointId>();
      neighbour.similarity = reader.read<std::uint16_t>();
    }
  }
  reader.expect_end();
  return lists;
}

NeighbourLists GraphWorker::given_lists(std::uint32_t shard) const {
  NeighbourLists lists(rows_of(shard));
  const std::size_t columns = neighbours_->columns();
  std::vector<std::int64_t> ids;
  std::vector<float> similarities;
  for (std::size_t first = 0; first < lists.size(); first += kReadLists) {
    const std::size_t rows = std::min(kReadLists, lists.size() - first);
    ids.resize(rows * columns);
    similarities.resize(rows * columns);
    neighbours_->read_integers(first_of(shard) + first, ids);
    similarities_->read(first_of(shard) + first, similarities);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == -1) continue;
      const std::uint16_t similarity = fraction_of(similarities[i]);
      if (similarity >= settings_.rule().least())
        lists[first + i / columns].push_back({static_cast<PointId>(ids[i]), similarity});
    }
  }
  return lists;
}

void GraphWorker::check_symmetry(std::uint32_t shard, const NeighbourLists& own,
                                 const NeighbourLists& of_others) const {
  for (std::size_t row = 0; row < own.size(); ++row) {
    if (own[row] == of_others[row]) continue;
    // Both lists are sorted.
    std::vector<Neighbour> one_sided;
    std::ranges::set_symmetric_difference(own[row], of_others[row], std::back_inserter(one_sided));
    const PointId other = one_sided.front().id;
    const auto lists = [&](const std::vector<Neighbour>& list) {
      return std::ranges::find(list, other, &Neighbour::id) != list.end();
    };
    const std::uint64_t id = first_of(shard) + row;
    if (lists(own[row]) && lists(of_others[row]))
      throw_error(ErrorCode::kInvalidArgument,
                  "{}: rows {} and {} give different similarities for their edge; make them equal",
                  similarities_->path(), id, other);
    throw_error(ErrorCode::kInvalidArgument,
                "{}, row {}: the neighbour {} is missing, although that row lists row {}; add it, "
                "or set the other entry to -1",
                neighbours_->path(), lists(own[row]) ? other : id, lists(own[row]) ? id : other,
                lists(own[row]) ? other : id);
  }
}

actors::task<std::uint64_t> GraphWorker::link(LinkRequest request) {
  check_inputs();
  ShardSpills arrived(spill_, "edges", layout_, kEdgeBytes);
  mesh::ActorExchange exchange(
      port_, this->exchange(request.exchange),
      [&](const transfer::ReceivedBlock& block) { arrived.add(block.bytes()); });
  ByteWriter record;
  for (const std::uint32_t shard : shards_) {
    const NeighbourLists lists = lists_of(shard, request.probes);
    for (std::size_t row = 0; row < lists.size(); ++row) {
      for (const Neighbour& neighbour : lists[row]) {
        record.clear();
        record.write(neighbour.id);
        record.write(static_cast<PointId>(first_of(shard) + row));
        record.write(neighbour.similarity);
        const std::uint32_t rank = owner_of(neighbour.id);
        while (!exchange.append(rank, record.bytes())) co_await exchange.flush(rank);
      }
    }
  }
  co_await exchange.finish();
  arrived.commit();
  std::uint64_t edges = 0;
  for (const std::uint32_t shard : shards_) {
    NeighbourLists lists = lists_of(shard, request.probes);
    NeighbourLists of_others(lists.size());
    arrived.drain(shard, [&](ByteReader& reader) {
      const auto id = reader.read<PointId>();
      const auto other = reader.read<PointId>();
      of_others.at(id - first_of(shard)).push_back({other, reader.read<std::uint16_t>()});
    });
    for (NeighbourLists* side : {&lists, &of_others})
      for (std::vector<Neighbour>& list : *side) std::ranges::sort(list);
    if (neighbours_) check_symmetry(shard, lists, of_others);
    std::vector<float> utilities(lists.size());
    if (utilities_) utilities_->read(first_of(shard), utilities);
    PointShardWriter writer(settings_.store, layout_, shard);
    std::vector<Neighbour> both;
    for (std::size_t row = 0; row < lists.size(); ++row) {
      both.clear();
      std::ranges::set_union(lists[row], of_others[row], std::back_inserter(both));
      const float utility =
          utilities_ ? (utilities[row] - request.least_utility) * request.utility_scale : 1;
      const auto id = static_cast<PointId>(first_of(shard) + row);
      writer.append(fraction_of(std::clamp(utility, 0.0F, 1.0F)), both,
                    vectors_ && is_copy(id) ? PointKind::kCopy : PointKind::kFirst);
    }
    writer.commit();
    edges += writer.num_edges();
  }
  check_inputs();
  co_return edges;
}

}  // namespace weft::apps

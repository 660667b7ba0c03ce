#include "apps/selection/internal/graph_linker.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "apps/selection/point_store.h"
#include "core/base/error.h"
#include "core/codec/bytes.h"

namespace weft::apps {
namespace {

/// Record of an edge for its other end: id there u32, id here u32, similarity u16.
constexpr std::size_t kLinkedEdgeBytes = 10;

}  // namespace

actors::task<std::uint64_t> GraphLinker::link(LinkRequest request) {
  input_.check_unmodified();
  PointShuffle edges(session_, {.number = request.exchange, .budget = settings_.exchange_budget},
                     "edges", kLinkedEdgeBytes);
  for (const std::uint32_t shard : session_.shards())
    co_await send_edges(shard, request.probes, edges);
  co_await edges.finish();
  std::uint64_t count = 0;
  for (const std::uint32_t shard : session_.shards()) count += write_shard(request, shard, edges);
  input_.check_unmodified();
  co_return count;
}

actors::task<> GraphLinker::send_edges(std::uint32_t shard, std::uint32_t probes,
                                       PointShuffle& edges) const {
  const NeighbourLists lists = found_.read(shard, probes);
  ByteWriter record;
  for (std::size_t row = 0; row < lists.size(); ++row) {
    for (const Neighbour& neighbour : lists[row]) {
      record.clear();
      record.write(neighbour.id);
      record.write(static_cast<PointId>(session_.first_of(shard) + row));
      record.write(neighbour.similarity);
      while (!edges.append(record)) co_await edges.flush();
    }
  }
}

std::uint64_t GraphLinker::write_shard(const LinkRequest& request, std::uint32_t shard,
                                       PointShuffle& edges) const {
  const std::uint64_t first = session_.first_of(shard);
  NeighbourLists lists = found_.read(shard, request.probes);
  NeighbourLists of_others(lists.size());
  edges.drain(shard, [&](ByteReader& reader) {
    const auto id = reader.read<PointId>();
    const auto other = reader.read<PointId>();
    of_others.at(id - first).push_back({other, reader.read<std::uint16_t>()});
  });
  for (NeighbourLists* side : {&lists, &of_others})
    for (std::vector<Neighbour>& list : *side) std::ranges::sort(list);
  if (!input_.has_vectors()) check_symmetry(shard, lists, of_others);
  const std::vector<float> utilities = input_.read_utilities(first, lists.size());
  PointShardWriter writer(settings_.store, session_.layout(), shard);
  std::vector<Neighbour> both;
  for (std::size_t row = 0; row < lists.size(); ++row) {
    both.clear();
    std::ranges::set_union(lists[row], of_others[row], std::back_inserter(both));
    const float utility = input_.has_utilities()
                              ? (utilities[row] - request.least_utility) * request.utility_scale
                              : 1;
    const auto id = static_cast<PointId>(first + row);
    writer.append(
        fraction_of(std::clamp(utility, 0.0F, 1.0F)), both,
        input_.has_vectors() && copies_.contains(id) ? PointKind::kCopy : PointKind::kFirst);
  }
  writer.commit();
  return writer.num_edges();
}

void GraphLinker::check_symmetry(std::uint32_t shard, const NeighbourLists& own,
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
    const std::uint64_t id = session_.first_of(shard) + row;
    if (lists(own[row]) && lists(of_others[row]))
      throw_error(ErrorCode::kInvalidArgument,
                  "{}: rows {} and {} give different similarities for their edge; make them equal",
                  input_.similarities_path(), id, other);
    throw_error(ErrorCode::kInvalidArgument,
                "{}, row {}: the neighbour {} is missing, although that row lists row {}; add it, "
                "or set the other entry to -1",
                input_.neighbours_path(), lists(own[row]) ? other : id,
                lists(own[row]) ? id : other, lists(own[row]) ? other : id);
  }
}

}  // namespace weft::apps

#include "apps/selection/internal/exhaustive_search.h"

#include <algorithm>
#include <utility>

namespace weft::apps {
namespace {

/// Limits of a single read.
constexpr std::uint64_t kReadRows = 16384, kReadBytes = 16 << 20;

}  // namespace

std::uint64_t ExhaustiveSearch::rows_at_a_time(std::uint64_t width) {
  return std::clamp<std::uint64_t>(kReadBytes / (width * sizeof(float)), 1, kReadRows);
}

SearchCount ExhaustiveSearch::compare(const VectorBlock& queries, std::uint64_t first,
                                      std::uint64_t past, NeighbourLists& lists) {
  const std::uint64_t block = rows_at_a_time(queries.dimensions);
  SearchCount count;
  for (; first < past; first += block) {
    const VectorBlock bases = copies_.read_distinct(first, std::min(first + block, past));
    count.pairs += queries.size() * bases.size();
    count.scans += find_nearest(*vector_search().search, settings_.rule(), queries.view(),
                                bases.view(), lists);
  }
  return count;
}

SearchCount ExhaustiveSearch::search_all() {
  SearchCount count;
  for (const std::uint32_t shard : session_.shards()) {
    const std::uint64_t first = session_.first_of(shard);
    const VectorBlock queries = copies_.read_distinct(first, session_.first_of(shard + 1));
    NeighbourLists lists(queries.size());
    const SearchCount of_shard = compare(queries, 0, session_.layout().points, lists);
    count.pairs += of_shard.pairs;
    count.scans += of_shard.scans;
    NeighbourLists of_rows(session_.rows_of(shard));
    for (std::size_t i = 0; i < lists.size(); ++i)
      of_rows[queries.ids[i] - first] = std::move(lists[i]);
    copies_.link(shard, of_rows);
    found_.write(shard, 0, of_rows);
  }
  return count;
}

NeighbourLists ExhaustiveSearch::nearest_of(const VectorBlock& queries) {
  NeighbourLists lists(queries.size());
  for (const std::uint32_t shard : session_.shards())
    compare(queries, session_.first_of(shard), session_.first_of(shard + 1), lists);
  return lists;
}

}  // namespace weft::apps

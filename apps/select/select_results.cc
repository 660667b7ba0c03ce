#include "apps/select/select_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "apps/data/chosen_rows.h"
#include "apps/select_input/contact_sheet.h"
#include "apps/select_input/row_places.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

/// Some chosen points, drawn at random.
class Drawn final {
 public:
  explicit Drawn(std::uint64_t seed) : seed_(seed) {}
  void offer(PointId id) {
    largest_.emplace(draw_of(id, seed_), id);
    if (largest_.size() > kStripsOfSheet) largest_.pop();
  }
  /// Ascending.
  std::vector<std::uint64_t> take() {
    std::vector<std::uint64_t> ids;
    for (; !largest_.empty(); largest_.pop()) ids.push_back(largest_.top().second);
    std::ranges::sort(ids);
    return ids;
  }

 private:
  using Draw = std::pair<std::int64_t, PointId>;
  const std::uint64_t seed_;
  std::priority_queue<Draw> largest_;  ///< The largest draw on top.
};

/// Of some points, by their shards.
std::vector<RejectedNeighbour> neighbours_of(const PointStore& store,
                                             const std::vector<std::uint64_t>& points) {
  std::map<std::uint32_t, std::set<std::uint64_t>> by_shard;
  for (const std::uint64_t id : points)
    by_shard[store.layout().shard_of(static_cast<PointId>(id))].insert(id);
  std::vector<RejectedNeighbour> neighbours;
  for (const auto& [shard, ids] : by_shard) {
    PointShardReader reader = store.read(shard);
    while (const StoredPoint* point = reader.next()) {
      if (!ids.contains(point->id)) continue;
      for (const Neighbour& neighbour : point->neighbours)
        neighbours.push_back({point->id, neighbour.id, neighbour.similarity / 65535.0});
    }
  }
  return neighbours;
}

}  // namespace

std::optional<std::filesystem::path> write_results(SelectionRun& selection, const PointStore& store,
                                                   const SelectInput* input,
                                                   const PreparedInput* prepared,
                                                   std::uint64_t seed,
                                                   const std::filesystem::path& folder) {
  std::ofstream table(folder / "chosen.tsv");
  std::ofstream ids(ChosenRows::rows_in(folder), std::ios::binary);
  std::optional<RowPlaces> places;
  if (prepared != nullptr && prepared->kind != InputKind::kVectors)
    places.emplace(prepared->places());
  table << "point\tutility\tgain\tdecided_by" << (places ? "\tpath\toffset\tlength\tlabel" : "")
        << "\n";
  Drawn drawn(seed);
  std::uint64_t count = 0;
  selection.each_result([&](const ResultPoint& point) {
    table << fmt::format("{}\t{:.5f}\t{}\t{}", point.id, point.utility / 65535.0, point.gain,
                         point.round == 0 ? "bound" : fmt::format("round {}", point.round));
    if (places) {
      const RowPlace place = places->at(point.id);
      const auto number = [](const std::optional<std::uint64_t>& value) {
        return value ? std::to_string(*value) : std::string();
      };
      table << "\t" << place.path << "\t" << number(place.offset) << "\t" << number(place.length)
            << "\t" << place.label;
    }
    table << "\n";
    ids.write(reinterpret_cast<const char*>(&point.id), sizeof(point.id));
    drawn.offer(point.id);
    ++count;
  });
  if (!table.flush() || !ids.flush())
    throw_error(ErrorCode::kResourceExhausted, "cannot write the results into {}; make room there",
                folder.string());
  ChosenRows::describe(folder, count, store.layout().points,
                       prepared == nullptr ? "" : prepared->data_digest);
  if (!places) return std::nullopt;
  const std::vector<std::uint64_t> shown = drawn.take();
  std::vector<RejectedNeighbour> neighbours = neighbours_of(store, shown);
  std::set<std::uint64_t> beside;
  for (const RejectedNeighbour& neighbour : neighbours) beside.insert(neighbour.rejected);
  std::set<std::uint64_t> also_chosen;
  selection.each_result([&](const ResultPoint& point) {
    if (beside.contains(point.id)) also_chosen.insert(point.id);
  });
  std::erase_if(neighbours, [&](const RejectedNeighbour& neighbour) {
    return also_chosen.contains(neighbour.rejected);
  });
  return write_contact_sheet(*input, *prepared, shown, neighbours, folder);
}

}  // namespace weft::apps

#include "apps/select/select_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <vector>

#include "apps/data/chosen_rows.h"
#include "apps/select/drawn_points.h"
#include "apps/select_input/contact_sheet.h"
#include "apps/select_input/row_places.h"
#include "core/base/error.h"

namespace weft::apps {
std::optional<std::filesystem::path> write_results(SelectionRun& selection, std::uint64_t points,
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
  DrawnPoints drawn(kStripsOfSheet, seed);
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
  ChosenRows::describe(folder, count, points, prepared == nullptr ? "" : prepared->data_digest);
  if (!places) return std::nullopt;
  const std::vector<PointId> shown = drawn.take();
  std::vector<RejectedNeighbour> neighbours;
  std::set<std::uint64_t> beside;
  for (const PointNeighbour& edge : selection.neighbours_of(shown)) {
    neighbours.push_back({edge.point, edge.neighbour, edge.similarity / 65535.0});
    beside.insert(edge.neighbour);
  }
  std::set<std::uint64_t> also_chosen;
  selection.each_result([&](const ResultPoint& point) {
    if (beside.contains(point.id)) also_chosen.insert(point.id);
  });
  std::erase_if(neighbours, [&](const RejectedNeighbour& neighbour) {
    return also_chosen.contains(neighbour.rejected);
  });
  const std::vector<std::uint64_t> chosen(shown.begin(), shown.end());
  return write_contact_sheet(*input, *prepared, chosen, neighbours, folder);
}

}  // namespace weft::apps

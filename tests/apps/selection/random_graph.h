#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "apps/selection/greedy.h"
#include "core/base/philox.h"

namespace weft::test {

/// Returns a graph of `points` points with about `degree` neighbours each. Utilities and
/// similarities have `levels` different values; few levels make ties. Ids differ from rows.
inline apps::PointGraph random_graph(PhiloxStream& random, std::uint32_t points, double degree,
                                     std::uint64_t levels, const apps::Objective& objective) {
  std::vector<apps::PointId> ids;
  std::vector<std::int64_t> gains;
  const auto fraction = [&] {
    return static_cast<std::uint16_t>(random.below(levels) * 65535 /
                                      std::max<std::uint64_t>(levels - 1, 1));
  };
  for (std::uint32_t row = 0; row < points; ++row) {
    ids.push_back(3 * row + 1);
    gains.push_back(objective.gain_alone(fraction()));
  }
  std::vector<apps::PointEdge> edges;
  const auto share = static_cast<std::uint64_t>(1e6 * std::min(1.0, degree / points));
  for (std::uint32_t a = 0; a < points; ++a) {
    for (std::uint32_t b = a + 1; b < points; ++b) {
      if (random.below(1'000'000) >= share) continue;
      const std::uint16_t s = fraction();
      edges.push_back({a, b, s});
      edges.push_back({b, a, s});
    }
  }
  return make_point_graph(std::move(ids), std::move(gains), std::move(edges));
}

/// Returns the score that `row` adds to the chosen rows `in`.
inline std::int64_t gain_beside(const apps::PointGraph& graph, const apps::Objective& objective,
                                std::uint32_t row, const std::vector<bool>& in) {
  std::int64_t gain = graph.gains[row];
  for (std::uint64_t edge = graph.first[row]; edge < graph.first[row + 1]; ++edge)
    if (in[graph.neighbours[edge]]) gain -= objective.redundancy_loss(graph.similarities[edge]);
  return gain;
}

inline std::vector<std::uint32_t> rows_of(const std::vector<apps::ChosenPoint>& chosen) {
  std::vector<std::uint32_t> rows;
  for (const apps::ChosenPoint& point : chosen) rows.push_back(point.row);
  std::ranges::sort(rows);
  return rows;
}

}  // namespace weft::test

#include "apps/selection/objective.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::apps {

Objective Objective::of_alpha(int thousandths) {
  if (thousandths < 1 || thousandths > 1000) {
    throw_error(ErrorCode::kInvalidArgument,
                "alpha is {}: it is the share of utility in the objective, above 0 and at most 1",
                thousandths / 1000.0);
  }
  const int common = std::gcd(thousandths, 1000 - thousandths);
  return {thousandths / common, (1000 - thousandths) / common};
}

PointGraph make_point_graph(std::vector<PointId> ids, std::vector<std::int64_t> gains,
                            std::vector<PointEdge> edges) {
  WEFT_CHECK(ids.size() == gains.size() && std::ranges::is_sorted(ids), "{} points", ids.size());
  std::ranges::sort(edges);
  PointGraph graph{std::move(ids), std::move(gains), {}, {}, {}};
  graph.first.assign(graph.size() + 1, 0);
  for (const PointEdge& edge : edges) {
    ++graph.first[edge.from + 1];
    graph.neighbours.push_back(edge.to);
    graph.similarities.push_back(edge.similarity);
  }
  std::partial_sum(graph.first.begin(), graph.first.end(), graph.first.begin());
  return graph;
}

PointGraph part_of(const PointGraph& graph, std::span<const std::uint32_t> rows) {
  constexpr std::uint32_t kOutside = ~std::uint32_t{0};
  std::vector<std::uint32_t> row_in_part(graph.size(), kOutside);
  PointGraph part;
  for (const std::uint32_t row : rows) {
    row_in_part[row] = part.size();
    part.ids.push_back(graph.ids[row]);
    part.gains.push_back(graph.gains[row]);
  }
  part.first.push_back(0);
  for (const std::uint32_t row : rows) {
    for (std::uint64_t edge = graph.first[row]; edge < graph.first[row + 1]; ++edge) {
      const std::uint32_t neighbour = row_in_part[graph.neighbours[edge]];
      if (neighbour == kOutside) continue;
      part.neighbours.push_back(neighbour);
      part.similarities.push_back(graph.similarities[edge]);
    }
    part.first.push_back(part.num_edges());
  }
  return part;
}

std::int64_t score_of(const PointGraph& graph, const Objective& objective,
                      std::span<const std::uint32_t> chosen) {
  std::vector<bool> in(graph.size(), false);
  for (const std::uint32_t row : chosen) in[row] = true;
  std::int64_t sum = 0;
  for (const std::uint32_t row : chosen) {
    sum += graph.gains[row];
    for (std::uint64_t edge = graph.first[row]; edge < graph.first[row + 1]; ++edge) {
      const std::uint32_t neighbour = graph.neighbours[edge];
      if (neighbour > row && in[neighbour])
        sum -= objective.redundancy_loss(graph.similarities[edge]);
    }
  }
  return sum;
}

}  // namespace weft::apps

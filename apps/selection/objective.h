#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/selection/point.h"

namespace weft::apps {

/// The pairwise submodular objective of Böther et al. (MLSys 2025, section 3), in integers, so that
/// scores are equal for any order of summation:
///
///   f(S) = utility * sum of u(v) over S - similarity * sum of s(v, w) over neighbours in S
///
/// Each pair of neighbours counts once. u and s are 16-bit fractions of 65535.
struct Objective {
  std::int64_t utility = 1;     ///< The paper's alpha, by a common factor.
  std::int64_t similarity = 1;  ///< The paper's beta = 1 - alpha, by the same factor.

  /// Of alpha in thousandths: 900 gives 9 and 1. Throws Error(kInvalidArgument) outside 1 to 1000.
  static Objective of_alpha(int thousandths);

  std::int64_t gain_alone(std::uint16_t u) const { return utility * u; }
  std::int64_t loss_beside(std::uint16_t s) const { return similarity * s; }
  friend bool operator==(const Objective&, const Objective&) = default;
};

/// Points with their gains and the edges among them, in memory: a partition, or a whole ground set
/// that is small enough. Rows are points by ascending id.
struct PointGraph {
  std::vector<PointId> ids;         ///< By row.
  std::vector<std::int64_t> gains;  ///< By row: what choosing it adds as long as nothing is chosen.
  std::vector<std::uint64_t> first;         ///< By row, and one past the last: its edges' place.
  std::vector<std::uint32_t> neighbours;    ///< By edge, each once from either end: a row.
  std::vector<std::uint16_t> similarities;  ///< By edge.

  std::size_t size() const { return ids.size(); }
  std::size_t num_edges() const { return neighbours.size(); }
};

/// One direction of an edge, by rows.
struct PointEdge {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint16_t similarity = 0;
  friend auto operator<=>(const PointEdge&, const PointEdge&) = default;
};

/// The graph of rows 0, 1, ... with these ids and gains. `edges`: both directions of each, in any
/// order.
PointGraph make_point_graph(std::vector<PointId> ids, std::vector<std::int64_t> gains,
                            std::vector<PointEdge> edges);

/// The points of `rows`, ascending, with the edges among them; what leaves is ignored.
PointGraph part_of(const PointGraph& graph, std::span<const std::uint32_t> rows);

/// f of the chosen rows, without what `gains` were charged for before.
std::int64_t score_of(const PointGraph& graph, const Objective& objective,
                      std::span<const std::uint32_t> chosen);

}  // namespace weft::apps

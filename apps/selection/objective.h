#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/selection/point.h"

namespace weft::apps {

/// Pairwise submodular objective of Böther et al. (MLSys 2025, section 3), in integers, so that
/// scores do not depend on the order of summation:
///
///   f(S) = utility * sum of u(v) over S - similarity * sum of s(v, w) over neighbours in S
///
/// Each pair of neighbours counts once. u and s are fractions of 65535 in 16 bits.
struct Objective {
  std::int64_t utility = 1;     ///< Paper's alpha times a common factor.
  std::int64_t similarity = 1;  ///< Paper's beta = 1 - alpha times the same factor.

  /// Converts alpha in thousandths: 900 gives 9 and 1. Throws Error(kInvalidArgument) outside 1 to
  /// 1000.
  static Objective of_alpha(int thousandths);

  std::int64_t gain_alone(std::uint16_t u) const { return utility * u; }
  std::int64_t redundancy_loss(std::uint16_t s) const { return similarity * s; }
  friend bool operator==(const Objective&, const Objective&) = default;
};

/// Points with their gains and the edges among them, in memory: a partition or a small ground set.
/// Rows are points by ascending id.
struct PointGraph {
  std::vector<PointId> ids;          ///< Ids by row.
  std::vector<std::int64_t> gains;   ///< Gain by row of choosing the point when nothing is chosen.
  std::vector<std::uint64_t> first;  ///< Index of the row's first edge, and the end for the
                                     ///< last row.
  std::vector<std::uint32_t> neighbours;    ///< Row of the neighbour, by edge. Both ends list an
                                            ///< edge.
  std::vector<std::uint16_t> similarities;  ///< Similarity by edge.

  std::size_t size() const { return ids.size(); }
  std::size_t num_edges() const { return neighbours.size(); }
};

/// Edge in one direction, between rows.
struct PointEdge {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint16_t similarity = 0;
  friend auto operator<=>(const PointEdge&, const PointEdge&) = default;
};

/// Creates the graph of rows 0, 1, ... with these ids and gains. `edges` has both directions of
/// each edge in any order.
PointGraph make_point_graph(std::vector<PointId> ids, std::vector<std::int64_t> gains,
                            std::vector<PointEdge> edges);

/// Returns the subgraph of ascending `rows`. Edges that leave it are dropped.
PointGraph part_of(const PointGraph& graph, std::span<const std::uint32_t> rows);

/// Returns the sum of the chosen rows' gains minus the weighted similarities among them.
std::int64_t score_of(const PointGraph& graph, const Objective& objective,
                      std::span<const std::uint32_t> chosen);

}  // namespace weft::apps

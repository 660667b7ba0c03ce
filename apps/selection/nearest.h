#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/selection/neighbours.h"
#include "apps/vector_search/vector_search.h"

namespace weft::apps {

/// View of points and their vectors of length 1.
struct PointVectors {
  std::span<const PointId> ids;
  VectorRows vectors;
};

/// Points and their vectors of length 1. A value.
struct VectorBlock {
  std::size_t dimensions = 1;
  std::vector<PointId> ids = {};
  std::vector<float> values = {};
  std::size_t size() const { return ids.size(); }
  PointVectors view() const { return {ids, {values, dimensions}}; }
};

/// Definition of a point's neighbours: the `count` most similar points (among equal ones those of
/// smaller id) with a similarity of at least `floor` (a fraction of 65535) and above 0. A point is
/// not its own neighbour. A value.
struct NeighbourRule {
  std::size_t count = 10;
  std::uint16_t floor = 0;
  std::uint16_t least() const { return floor > 0 ? floor : 1; }
};

/// Updates the lists of neighbours of `queries` with all of `bases`. `lists` may be in any order.
/// The result equals that of comparing all pairs with cosine_of(), bit by bit, for any library
/// whose sums have the usual rounding error. The library finds the nearest bases and some more. If
/// bases beyond these may be equally similar, the query is compared with all bases. Returns the
/// number of such queries. One thread.
std::uint64_t find_nearest(const VectorSearch& search, const NeighbourRule& rule,
                           const PointVectors& queries, const PointVectors& bases,
                           std::span<std::vector<Neighbour>> lists);

}  // namespace weft::apps

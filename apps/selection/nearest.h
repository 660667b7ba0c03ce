#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/selection/neighbours.h"
#include "apps/vector_search/vector_search.h"

namespace weft::apps {

/// Points and their vectors of length 1. A view.
struct PointVectors {
  std::span<const PointId> ids;
  VectorRows vectors;
};

/// The same as a value.
struct VectorBlock {
  std::size_t dimensions = 1;
  std::vector<PointId> ids = {};
  std::vector<float> values = {};
  std::size_t size() const { return ids.size(); }
  PointVectors view() const { return {ids, {values, dimensions}}; }
};

/// What are neighbours of a point: the `count` most similar, of equal ones the smaller ids, of
/// similarity `floor` at least (a fraction of 65535) and above 0; never the point itself. A value.
struct NeighbourRule {
  std::size_t count = 10;
  std::uint16_t floor = 0;
  std::uint16_t least() const { return floor > 0 ? floor : 1; }
};

/// Offers all of `bases` to each of `queries`, whose lists of neighbours so far, in any order, are
/// `lists`. The same as comparing all pairs by cosine_of(), to the bit, for any library whose sums
/// round as sums of so many numbers may: it finds the nearest and some more, and where it cannot
/// tell what is behind those, as so many are equally similar, the query is compared with all.
/// How often that was; one thread.
std::uint64_t find_nearest(const VectorSearch& search, const NeighbourRule& rule,
                           const PointVectors& queries, const PointVectors& bases,
                           std::span<std::vector<Neighbour>> lists);

}  // namespace weft::apps

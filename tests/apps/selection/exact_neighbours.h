#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/selection/neighbours.h"

namespace weft::apps {

/// Returns the `count` most similar vectors of each vector, by comparing all pairs, made symmetric.
/// The vectors have length 1. Ties go to the smaller id. Similarities of 0 or below `floor` (a
/// fraction of 65535) are left out.
inline NeighbourLists exact_neighbours(std::span<const float> vectors, std::size_t columns,
                                       std::size_t count, std::uint16_t floor = 0) {
  const std::size_t points = vectors.size() / columns;
  const auto vector = [&](std::size_t i) { return vectors.subspan(i * columns, columns); };
  NeighbourLists lists(points);
  std::vector<Neighbour> others;
  for (std::size_t i = 0; i < points; ++i) {
    others.clear();
    for (std::size_t j = 0; j < points; ++j) {
      if (j == i) continue;
      const std::uint16_t similarity = cosine_of(vector(i), vector(j));
      if (similarity > 0 && similarity >= floor)
        others.push_back({static_cast<PointId>(j), similarity});
    }
    keep_most_similar(others, count);
    lists[i] = others;
  }
  make_symmetric(lists);
  return lists;
}

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <vector>

#include "apps/selection/objective.h"

namespace weft::apps {

/// A point that greedy has chosen, and what it added then.
struct ChosenPoint {
  std::uint32_t row = 0;
  std::int64_t gain = 0;
  friend bool operator==(const ChosenPoint&, const ChosenPoint&) = default;
};

/// Chooses `count` points, or all if there are fewer, one after the other: that which adds most,
/// by PointRank, also where all that is left adds less than nothing. In the order of choice, whose
/// gains never rise. O(n + (n + edges) log n); 16 bytes a point beside the graph.
///
/// A heap of stale gains: gains only fall, so a point whose gain has fallen since is put back, and
/// the first one that has not is the best (lazy greedy, Minoux 1978).
std::vector<ChosenPoint> choose_greedily(const PointGraph& graph, const Objective& objective,
                                         std::size_t count, std::uint64_t seed);

}  // namespace weft::apps

#pragma once

#include <cstdint>
#include <vector>

#include "apps/selection/objective.h"

namespace weft::apps {

/// Point chosen by greedy, and its gain at that time.
struct ChosenPoint {
  std::uint32_t row = 0;
  std::int64_t gain = 0;
  friend bool operator==(const ChosenPoint&, const ChosenPoint&) = default;
};

/// Chooses `count` points (or all, if there are fewer) one by one, each time the first by
/// PointRank, even if its gain is negative. Returns them in the order of choice; their gains never
/// rise. Takes O(n + (n + edges) log n) time, and 16 bytes a point beside the graph.
///
/// Uses a heap of stale gains. As gains only fall, a point whose gain has fallen is pushed back,
/// and the first one with a current gain is the best (lazy greedy, Minoux 1978).
std::vector<ChosenPoint> choose_greedily(const PointGraph& graph, const Objective& objective,
                                         std::size_t count, std::uint64_t seed);

}  // namespace weft::apps

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "apps/selection/point.h"

namespace weft::apps {

/// Random sample of the offered points: the `capacity` points of smallest sample_key(). Samples of
/// a set and of its subset overlap as much as possible. Not thread-safe.
class PointSample final {
 public:
  PointSample(std::size_t capacity, std::uint64_t seed) : capacity_(capacity), seed_(seed) {}

  void offer(PointId id) {
    const Draw draw{sample_key(id, seed_), id};
    if (smallest_.size() == capacity_) {
      if (!(draw < smallest_.top())) return;
      smallest_.pop();
    }
    smallest_.push(draw);
  }
  /// Returns the sample in ascending order and empties it.
  std::vector<PointId> take() {
    std::vector<PointId> ids;
    for (; !smallest_.empty(); smallest_.pop()) ids.push_back(smallest_.top().second);
    std::ranges::sort(ids);
    return ids;
  }

 private:
  using Draw = std::pair<std::int64_t, PointId>;
  const std::size_t capacity_;
  const std::uint64_t seed_;
  std::priority_queue<Draw> smallest_;  ///< Max-heap of the smallest draws.
};

}  // namespace weft::apps

#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "transfer/reshard/shard_map.h"

namespace weft::test {

/// Mesh of devices and, per tensor dimension, the mesh axes that split it, outermost first. All
/// other axes replicate.
struct RandomSharding {
  std::vector<int> mesh_shape;
  std::vector<std::vector<std::size_t>> spec;
  std::vector<transfer::DeviceId> devices;  // row-major over the mesh

  /// Returns the shard map. Part i of n of an extent is [extent * i / n, extent * (i + 1) / n),
  /// which is uneven if n does not divide the extent.
  transfer::ShardMap map(const Shape& shape) const {
    transfer::ShardMap result{shape, {}};
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
      std::vector<std::int64_t> coordinate(mesh_shape.size());
      std::size_t rest = rank;
      for (std::size_t axis = mesh_shape.size(); axis-- > 0;) {
        coordinate[axis] = rest % mesh_shape[axis];
        rest /= mesh_shape[axis];
      }
      std::vector<Interval> intervals;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        std::int64_t parts = 1, index = 0;
        for (const std::size_t axis : spec[d]) {
          parts *= mesh_shape[axis];
          index = index * mesh_shape[axis] + coordinate[axis];
        }
        intervals.push_back({shape[d] * index / parts, shape[d] * (index + 1) / parts});
      }
      result.shards.push_back({devices[rank], Region(std::move(intervals))});
    }
    return result;
  }

  std::string describe() const {
    std::string text = "mesh";
    for (const int extent : mesh_shape) text += " " + std::to_string(extent);
    text += " spec";
    for (const auto& axes : spec) {
      text += " (";
      for (const std::size_t axis : axes) text += std::to_string(axis);
      text += ")";
    }
    text += " devices";
    for (const transfer::DeviceId device : devices) text += " " + std::to_string(device.value());
    return text;
  }
};

/// Makes a mesh of 1 to `num_devices` random devices with 1 to 3 axes. Each axis replicates or
/// splits a random dimension that is long enough.
inline RandomSharding random_sharding(std::mt19937_64& random, const Shape& shape,
                                      std::size_t num_devices) {
  const auto pick = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  RandomSharding result;
  std::size_t size = 1;
  const std::size_t axes = 1 + pick(3);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::size_t extent = 1 + pick(std::min<std::size_t>(4, num_devices / size));
    result.mesh_shape.push_back(extent);
    size *= extent;
  }
  std::vector<transfer::DeviceId> all;
  for (std::uint32_t i = 0; i < num_devices; ++i) all.emplace_back(i);
  std::shuffle(all.begin(), all.end(), random);
  result.devices.assign(all.begin(), all.begin() + size);
  result.spec.resize(shape.size());
  std::vector<std::int64_t> parts(shape.size(), 1);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::size_t dimension = pick(shape.size() + 1);  // the last value means replicate
    if (dimension == shape.size() || parts[dimension] * result.mesh_shape[axis] > shape[dimension])
      continue;
    parts[dimension] *= result.mesh_shape[axis];
    result.spec[dimension].push_back(axis);
  }
  for (auto& axes_of_dimension : result.spec)
    std::shuffle(axes_of_dimension.begin(), axes_of_dimension.end(), random);
  return result;
}

inline Shape random_shape(std::mt19937_64& random, std::int64_t max_extent) {
  Shape shape(random() % 5);
  for (std::int64_t& extent : shape) extent = 1 + static_cast<std::int64_t>(random() % max_extent);
  return shape;
}

}  // namespace weft::test

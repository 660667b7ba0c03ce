#include "mesh/sharding/spec.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::mesh {

int Spec::dim_of(int axis) const {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (std::find(dims[i].begin(), dims[i].end(), axis) != dims[i].end()) return i;
  }
  return -1;
}

bool Spec::is_partial_over(int axis) const {
  return std::find(partial.begin(), partial.end(), axis) != partial.end();
}

std::string axes_text(const std::vector<int>& axes, const DeviceMesh& mesh) {
  std::string text;
  for (const int axis : axes) text += (text.empty() ? "" : "+") + mesh.axes()[axis].name;
  return text;
}

std::string to_string(const Spec& spec, const DeviceMesh& mesh) {
  std::string text = "[";
  for (std::size_t i = 0; i < spec.dims.size(); ++i) {
    text += (i == 0 ? "" : ",") +
            (spec.dims[i].empty() ? std::string("-") : axes_text(spec.dims[i], mesh));
  }
  text += "]";
  if (spec.is_partial()) text += " partial(" + axes_text(spec.partial, mesh) + ")";
  return text;
}

Region region_of(const Shape& shape, const Spec& spec, const DeviceMesh& mesh, int rank) {
  WEFT_CHECK(spec.dims.size() == shape.size(), "spec of rank {} for shape {}", spec.dims.size(),
             weft::to_string(shape));
  const Coordinate coordinate = mesh.coordinate(rank);
  std::vector<Interval> intervals;
  intervals.reserve(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t chunks = 1, index = 0;
    for (const int axis : spec.dims[i]) {
      chunks *= mesh.axes()[axis].size;
      index = index * mesh.axes()[axis].size + coordinate[axis];
    }
    if (chunks > shape[i]) {
      throw_error(ErrorCode::kInvalidArgument, "dimension {} of {} cannot be split {} ways over {}",
                  i, weft::to_string(shape), chunks, to_string(mesh));
    }
    intervals.push_back(part_of(shape[i], index, chunks));
  }
  return Region(std::move(intervals));
}

Shape local_shape(const Shape& shape, const Spec& spec, const DeviceMesh& mesh, int rank) {
  return region_of(shape, spec, mesh, rank).shape();
}

transfer::ShardMap shard_map(const Shape& shape, const Spec& spec, const DeviceMesh& mesh) {
  WEFT_CHECK(!spec.is_partial(), "a partial tensor has no shard map");
  transfer::ShardMap map;
  map.shape = shape;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    map.shards.push_back({mesh.devices()[rank], region_of(shape, spec, mesh, rank)});
  }
  return map;
}

bool is_first_replica(const Spec& spec, const DeviceMesh& mesh, int rank) {
  const Coordinate coordinate = mesh.coordinate(rank);
  for (std::size_t axis = 0; axis < coordinate.size(); ++axis) {
    if (spec.is_replicated_over(axis) && coordinate[axis] != 0) return false;
  }
  return true;
}

}  // namespace weft::mesh

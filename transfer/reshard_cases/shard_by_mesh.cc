#include "transfer/reshard_cases/shard_by_mesh.h"

#include "core/base/error.h"

namespace weft::transfer {

ShardMap shard_by_mesh(const Shape& shape, const MeshSharding& cut) {
  int devices = 1;
  for (const int extent : cut.extents) devices *= extent;
  ShardMap map{shape, {}};
  for (int device = 0; device < devices; ++device) {
    std::vector<int> coordinate(cut.extents.size());
    for (int axis = std::ssize(cut.extents) - 1, rest = device; axis >= 0; --axis) {
      const std::size_t a = axis;
      coordinate[a] = rest % cut.extents[a];
      rest /= cut.extents[a];
    }
    std::vector<Interval> intervals;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::int64_t parts = 1, part = 0;
      if (d < cut.axes.size()) {
        for (const int axis : cut.axes[d]) {
          parts *= cut.extents.at(axis);
          part = part * cut.extents[axis] + coordinate[axis];
        }
      }
      if (shape[d] < parts) {
        throw_error(ErrorCode::kInvalidArgument,
                    "dimension {} of {} has fewer elements than the {} parts it is cut into", d,
                    weft::to_string(shape), parts);
      }
      intervals.push_back(part_of(shape[d], part, parts));
    }
    map.shards.push_back({DeviceId(cut.first_device + device), Region(std::move(intervals))});
  }
  return map;
}

}  // namespace weft::transfer

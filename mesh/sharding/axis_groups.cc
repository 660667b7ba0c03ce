#include "mesh/sharding/axis_groups.h"

#include <map>
#include <utility>

namespace weft::mesh {

std::vector<std::vector<int>> groups_over(const DeviceMesh& mesh, const std::vector<int>& axes) {
  std::map<Coordinate, std::vector<int>> groups;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    Coordinate key = mesh.coordinate(rank);
    for (const int axis : axes) key[axis] = 0;
    groups[key].push_back(rank);
  }
  std::vector<std::vector<int>> result;
  for (auto& [key, ranks] : groups) result.push_back(std::move(ranks));
  return result;
}

std::vector<transfer::DeviceId> devices_at(const DeviceMesh& mesh, const std::vector<int>& ranks) {
  std::vector<transfer::DeviceId> devices;
  for (const int rank : ranks) devices.push_back(mesh.devices()[rank]);
  return devices;
}

}  // namespace weft::mesh

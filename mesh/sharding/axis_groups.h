#pragma once

#include <vector>

#include "mesh/sharding/device_mesh.h"

namespace weft::mesh {

/// Returns the groups of ranks that differ only along `axes`, such as those that reduce together.
/// Each group is in the order of its coordinates. (data=2, tensor=2) over {data}: {0, 2}, {1, 3}.
std::vector<std::vector<int>> groups_over(const DeviceMesh& mesh, const std::vector<int>& axes);

/// Returns the devices at these ranks.
std::vector<transfer::DeviceId> devices_at(const DeviceMesh& mesh, const std::vector<int>& ranks);

}  // namespace weft::mesh

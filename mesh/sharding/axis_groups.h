#pragma once

#include <vector>

#include "mesh/sharding/device_mesh.h"

namespace weft::mesh {

/// The devices of a mesh, as ranks, in groups that differ only along `axes`: those that reduce
/// together over them. Every group in the order of the coordinates. (data=2, tensor=2) over {data}:
/// {0, 2}, {1, 3}.
std::vector<std::vector<int>> groups_over(const DeviceMesh& mesh, const std::vector<int>& axes);

/// The devices at these ranks.
std::vector<transfer::DeviceId> devices_at(const DeviceMesh& mesh, const std::vector<int>& ranks);

}  // namespace weft::mesh

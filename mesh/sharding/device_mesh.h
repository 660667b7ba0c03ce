#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/mesh_shape.h"
#include "transfer/topology/topology.h"

namespace weft::mesh {

/// Position of a device in a mesh: one index per axis, in the order of the axes.
using Coordinate = std::vector<std::int64_t>;

/// Grid of devices with named axes: a MeshShape and its devices. A value.
///
/// Devices are listed in row-major order of their coordinates: the last axis varies fastest.
class DeviceMesh {
 public:
  DeviceMesh() = default;
  /// Throws Error(kInvalidArgument) as MeshShape does, and unless there is exactly one device per
  /// coordinate.
  DeviceMesh(std::string name, std::vector<MeshAxis> axes, std::vector<transfer::DeviceId> devices);

  const std::string& name() const { return name_; }
  const MeshShape& shape() const { return shape_; }
  const std::vector<MeshAxis>& axes() const { return shape_.axes(); }
  const std::vector<transfer::DeviceId>& devices() const { return devices_; }
  int size() const { return devices_.size(); }
  /// Returns the index of the axis with this name.
  std::optional<int> axis(std::string_view name) const;
  Coordinate coordinate(int rank) const { return shape_.coordinates(rank); }
  int rank(const Coordinate& coordinate) const { return shape_.rank(coordinate); }
  /// Returns the rank of `device` in this mesh.
  std::optional<int> rank_of(transfer::DeviceId device) const;
  /// Returns the ranks that differ from `rank` only along `axis`, ordered by their index on it.
  std::vector<int> group(int rank, int axis) const;

  friend bool operator==(const DeviceMesh&, const DeviceMesh&) = default;

 private:
  std::string name_;
  MeshShape shape_;
  std::vector<transfer::DeviceId> devices_;
};

/// Returns text such as "front(data=1,tensor=2)".
std::string to_string(const DeviceMesh& mesh);
/// Returns the name of one device, such as "front[0,1]".
std::string device_name(const DeviceMesh& mesh, int rank);

}  // namespace weft::mesh

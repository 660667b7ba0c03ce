#include "mesh/sharding/device_mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace weft::mesh {

DeviceMesh::DeviceMesh(std::string name, std::vector<MeshAxis> axes,
                       std::vector<transfer::DeviceId> devices)
    : name_(std::move(name)), shape_(std::move(axes)), devices_(std::move(devices)) {
  if (shape_.size() != std::ssize(devices_)) {
    throw_error(ErrorCode::kInvalidArgument, "mesh '{}' has {} coordinates but {} devices", name_,
                shape_.size(), devices_.size());
  }
}

std::optional<int> DeviceMesh::axis(std::string_view name) const {
  for (std::size_t i = 0; i < axes().size(); ++i) {
    if (axes()[i].name == name) return static_cast<int>(i);
  }
  return std::nullopt;
}

std::optional<int> DeviceMesh::rank_of(transfer::DeviceId device) const {
  const auto found = std::find(devices_.begin(), devices_.end(), device);
  if (found == devices_.end()) return std::nullopt;
  return static_cast<int>(found - devices_.begin());
}

std::vector<int> DeviceMesh::group(int rank, int axis) const {
  Coordinate coordinate = this->coordinate(rank);
  std::vector<int> ranks;
  for (int i = 0; i < axes()[axis].size; ++i) {
    coordinate[axis] = i;
    ranks.push_back(this->rank(coordinate));
  }
  return ranks;
}

std::string to_string(const DeviceMesh& mesh) {
  std::string text = mesh.name() + "(";
  for (std::size_t i = 0; i < mesh.axes().size(); ++i) {
    text += fmt::format("{}{}={}", i == 0 ? "" : ",", mesh.axes()[i].name, mesh.axes()[i].size);
  }
  return text + ")";
}

std::string device_name(const DeviceMesh& mesh, int rank) {
  return fmt::format("{}[{}]", mesh.name(), fmt::join(mesh.coordinate(rank), ","));
}

}  // namespace weft::mesh

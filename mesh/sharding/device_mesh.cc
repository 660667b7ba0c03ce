#include "mesh/sharding/device_mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::mesh {

DeviceMesh::DeviceMesh(std::string name, std::vector<MeshAxis> axes,
                       std::vector<transfer::DeviceId> devices)
    : name_(std::move(name)), axes_(std::move(axes)), devices_(std::move(devices)) {
  std::size_t size = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].size < 1) {
      throw_error(ErrorCode::kInvalidArgument,
                  "axis '{}' of mesh '{}' has size {}; it must be at least 1", axes_[i].name, name_,
                  axes_[i].size);
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (axes_[i].name == axes_[j].name) {
        throw_error(ErrorCode::kInvalidArgument, "mesh '{}' has two axes named '{}'", name_,
                    axes_[i].name);
      }
    }
    size *= static_cast<std::size_t>(axes_[i].size);
  }
  if (size != devices_.size()) {
    throw_error(ErrorCode::kInvalidArgument, "mesh '{}' has {} coordinates but {} devices", name_,
                size, devices_.size());
  }
}

std::optional<int> DeviceMesh::axis(std::string_view name) const {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return static_cast<int>(i);
  }
  return std::nullopt;
}

Coordinate DeviceMesh::coordinate(int rank) const {
  WEFT_CHECK(rank >= 0 && rank < size(), "rank {} of {}", rank, size());
  Coordinate coordinate(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    coordinate[i] = rank % axes_[i].size;
    rank /= axes_[i].size;
  }
  return coordinate;
}

int DeviceMesh::rank(const Coordinate& coordinate) const {
  WEFT_CHECK(coordinate.size() == axes_.size());
  int rank = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i) rank = rank * axes_[i].size + coordinate[i];
  return rank;
}

std::optional<int> DeviceMesh::rank_of(transfer::DeviceId device) const {
  const auto found = std::find(devices_.begin(), devices_.end(), device);
  if (found == devices_.end()) return std::nullopt;
  return static_cast<int>(found - devices_.begin());
}

std::vector<int> DeviceMesh::group(int rank, int axis) const {
  Coordinate coordinate = this->coordinate(rank);
  std::vector<int> ranks;
  for (int i = 0; i < axes_[axis].size; ++i) {
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

#include "core/tensor/mesh_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace weft {

namespace {

std::vector<MeshAxis> to_axes(std::initializer_list<std::pair<std::string, std::int64_t>> list) {
  std::vector<MeshAxis> axes;
  for (const auto& [name, size] : list) axes.push_back({name, size});
  return axes;
}

/// Resolves a position that counts from the end if it is negative.
std::int64_t resolve_index(std::int64_t position, std::int64_t size) {
  return position < 0 ? position + size : position;
}

}  // namespace

MeshShape::MeshShape(std::initializer_list<std::pair<std::string, std::int64_t>> axes)
    : MeshShape(to_axes(axes)) {}

MeshShape::MeshShape(std::vector<MeshAxis> axes) : axes_(std::move(axes)) { check(); }

void MeshShape::check() const {
  std::int64_t product = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].size < 1)
      throw_error(ErrorCode::kInvalidArgument, "mesh axis '{}' has size {}; it must be at least 1",
                  axes_[i].name, axes_[i].size);
    for (std::size_t j = 0; j < i; ++j)
      if (axes_[i].name == axes_[j].name)
        throw_error(ErrorCode::kInvalidArgument, "mesh axis '{}' is given twice", axes_[i].name);
    if (__builtin_mul_overflow(product, axes_[i].size, &product))
      throw_error(ErrorCode::kInvalidArgument,
                  "a mesh of shape {} has more than 2^63 - 1 ranks (from axis '{}' on)",
                  to_string(*this), axes_[i].name);
  }
}

std::int64_t MeshShape::size() const {
  std::int64_t product = 1;
  for (const MeshAxis& axis : axes_) product *= axis.size;
  return product;
}

std::int64_t MeshShape::size(const std::string& axis) const {
  for (const MeshAxis& each : axes_)
    if (each.name == axis) return each.size;
  throw_error(ErrorCode::kNotFound, "a mesh of shape {} has no axis '{}'", to_string(*this), axis);
}

std::vector<std::int64_t> MeshShape::coordinates(std::int64_t rank) const {
  if (rank < 0 || rank >= size())
    throw_error(ErrorCode::kInvalidArgument, "rank {} is outside a mesh of shape {}", rank,
                to_string(*this));
  std::vector<std::int64_t> result(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    result[i] = rank % axes_[i].size;
    rank /= axes_[i].size;
  }
  return result;
}

std::int64_t MeshShape::rank(std::span<const std::int64_t> coordinates) const {
  if (coordinates.size() != axes_.size())
    throw_error(ErrorCode::kInvalidArgument, "{} coordinates are given for a mesh of shape {}",
                coordinates.size(), to_string(*this));
  std::int64_t rank = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (coordinates[i] < 0 || coordinates[i] >= axes_[i].size)
      throw_error(ErrorCode::kInvalidArgument, "coordinate {}={} is outside a mesh of shape {}",
                  axes_[i].name, coordinates[i], to_string(*this));
    rank = rank * axes_[i].size + coordinates[i];
  }
  return rank;
}

std::vector<MeshShape::AxisRange> MeshShape::ranges_of(std::span<const AxisPart> parts) const {
  std::vector<AxisRange> ranges;
  for (const MeshAxis& axis : axes_) ranges.push_back({0, axis.size, true});
  for (const AxisPart& part : parts) {
    const auto axis = std::find_if(axes_.begin(), axes_.end(),
                                   [&](const MeshAxis& each) { return each.name == part.axis; });
    if (axis == axes_.end())
      throw_error(ErrorCode::kNotFound, "a mesh of shape {} has no axis '{}' to slice",
                  to_string(*this), part.axis);
    const std::int64_t begin = resolve_index(part.begin, axis->size);
    const std::int64_t end = part.is_range ? resolve_index(part.end, axis->size) : begin + 1;
    if (begin < 0 || begin >= end || end > axis->size)
      throw_error(ErrorCode::kInvalidArgument,
                  "[{},{}) of axis '{}' is empty or outside a mesh of shape {}", part.begin,
                  part.is_range ? part.end : part.begin + 1, part.axis, to_string(*this));
    ranges[axis - axes_.begin()] = {begin, end, part.is_range};
  }
  return ranges;
}

MeshShape::MeshSlice MeshShape::slice(std::span<const AxisPart> parts) const {
  const std::vector<AxisRange> ranges = ranges_of(parts);
  MeshSlice result;
  std::vector<MeshAxis> kept;
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (ranges[i].keep) kept.push_back({axes_[i].name, ranges[i].end - ranges[i].begin});
  result.shape = MeshShape(std::move(kept));
  for (std::int64_t rank = 0; rank < size(); ++rank) {
    const auto at = coordinates(rank);
    bool inside = true;
    for (std::size_t i = 0; i < at.size(); ++i)
      inside = inside && at[i] >= ranges[i].begin && at[i] < ranges[i].end;
    if (inside) result.ranks.push_back(rank);
  }
  return result;
}

std::string to_string(const MeshShape& shape) {
  std::string text;
  for (const auto& axis : shape.axes())
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis.name, axis.size);
  return "[" + text + "]";
}

std::string to_string(const MeshShape& shape, std::span<const std::int64_t> coordinates) {
  if (shape.axes().empty()) return "";
  std::string text;
  for (std::size_t i = 0; i < shape.axes().size(); ++i)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", shape.axes()[i].name, coordinates[i]);
  return "[" + text + "]";
}

}  // namespace weft

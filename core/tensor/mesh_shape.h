#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/codec/codec.h"

namespace weft {

/// Selection on one axis: an index, which drops the axis, or a range, which keeps it. Negative
/// numbers count from the end.
///   {"data", -1}     the last index        {"data", 0, 2}   the first two
struct AxisPart {
  AxisPart(std::string axis_name, std::int64_t index)
      : axis(std::move(axis_name)), begin(index), is_range(false) {}
  AxisPart(std::string axis_name, std::int64_t first, std::int64_t last)
      : axis(std::move(axis_name)), begin(first), end(last), is_range(true) {}
  std::string axis;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool is_range = false;
};

/// Named axis of a mesh: "data" of size 2.
struct MeshAxis {
  std::string name;
  std::int64_t size = 1;
  static constexpr auto fields = weft::fields(&MeshAxis::name, &MeshAxis::size);
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

/// Named axes and their sizes, outermost first: {{"data", 2}, {"tensor", 1}}. Ranks count in
/// row-major order. A shape without axes has one rank.
class MeshShape final {
 public:
  MeshShape() = default;
  /// Throws Error(kInvalidArgument) like check().
  MeshShape(std::initializer_list<std::pair<std::string, std::int64_t>> axes);
  explicit MeshShape(std::vector<MeshAxis> axes);

  /// Throws Error(kInvalidArgument) for a size below 1, a duplicate name, or a product of the sizes
  /// above 2^63 - 1. Call for a shape received in a message, which was not checked yet.
  void check() const;

  const std::vector<MeshAxis>& axes() const { return axes_; }
  std::int64_t size() const;
  /// Returns the size of an axis. Throws Error(kNotFound), which lists the existing axes.
  std::int64_t size(const std::string& axis) const;

  /// Convert a rank to coordinates and back. Throw Error(kInvalidArgument) outside the shape.
  std::vector<std::int64_t> coordinates(std::int64_t rank) const;
  std::int64_t rank(std::span<const std::int64_t> coordinates) const;

  struct MeshSlice;
  /// Returns the ranks that `parts` select, in row-major order, and their shape.
  MeshSlice slice(std::span<const AxisPart> parts) const;

  friend bool operator==(const MeshShape&, const MeshShape&) = default;

 private:
  /// Selected coordinates [begin, end) of one axis. `keep` is true if the slice keeps the axis.
  struct AxisRange {
    std::int64_t begin, end;
    bool keep;
  };
  /// Returns the range of each axis. Throws Error(kNotFound) for an unknown axis,
  /// Error(kInvalidArgument) for an empty range or one outside the axis.
  std::vector<AxisRange> ranges_of(std::span<const AxisPart> parts) const;

  std::vector<MeshAxis> axes_;

 public:
  static constexpr auto fields = weft::fields(&MeshShape::axes_);
};

struct MeshShape::MeshSlice {
  MeshShape shape;
  std::vector<std::int64_t> ranks;
};

/// Returns "[data=2,tensor=1]".
std::string to_string(const MeshShape& shape);
/// Returns "[data=0,tensor=0]", a position in the shape; "" if it has no axes.
std::string to_string(const MeshShape& shape, std::span<const std::int64_t> coordinates);

}  // namespace weft

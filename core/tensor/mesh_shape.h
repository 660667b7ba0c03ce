#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/codec/codec.h"

namespace weft {

/// Part of one axis: an index, which drops the axis, or a range, which keeps it. Negative numbers
/// count from the end.
///   {"data", -1}     the last one        {"data", 0, 2}   the first two
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

/// A named axis of a mesh: "data" of size 2.
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
  /// Throws Error(kInvalidArgument) as check() does.
  MeshShape(std::initializer_list<std::pair<std::string, std::int64_t>> axes);
  explicit MeshShape(std::vector<MeshAxis> axes);

  /// Throws Error(kInvalidArgument) for a size below 1, a name given twice, or sizes that multiply
  /// to more than 2^63 - 1. For a shape that came in a message: nothing has been checked then.
  void check() const;

  const std::vector<MeshAxis>& axes() const { return axes_; }
  std::int64_t size() const;
  /// Throws Error(kNotFound), naming the axes there are.
  std::int64_t size(const std::string& axis) const;

  /// The coordinates of a rank, and back. Throw Error(kInvalidArgument) outside the shape.
  std::vector<std::int64_t> coordinates(std::int64_t rank) const;
  std::int64_t rank(std::span<const std::int64_t> coordinates) const;

  struct Slice;
  /// The ranks that `parts` select, in row-major order, and their shape.
  Slice slice(std::span<const AxisPart> parts) const;

  friend bool operator==(const MeshShape&, const MeshShape&) = default;

 private:
  /// Coordinates of a slice on one axis: [begin, end), and whether the slice keeps the axis.
  struct AxisRange {
    std::int64_t begin, end;
    bool keep;
  };
  /// By axis. Throws Error(kNotFound, kInvalidArgument) for a part that is not there.
  std::vector<AxisRange> ranges_of(std::span<const AxisPart> parts) const;

  std::vector<MeshAxis> axes_;

 public:
  static constexpr auto fields = weft::fields(&MeshShape::axes_);
};

struct MeshShape::Slice {
  MeshShape shape;
  std::vector<std::int64_t> ranks;
};

/// "[data=2,tensor=1]".
std::string to_string(const MeshShape& shape);
/// "[data=0,tensor=0]": a place in it.
std::string to_string(const MeshShape& shape, std::span<const std::int64_t> coordinates);

}  // namespace weft

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/shape.h"

namespace weft {

/// Half-open range [begin, end) of one dimension.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
  friend auto operator<=>(const Interval&, const Interval&) = default;
};

/// Returns part i of n of [0, extent): [floor(i * extent / n), floor((i + 1) * extent / n)). Sizes
/// differ by at most 1. n must be below 2^31.
Interval part_of(std::int64_t extent, std::int64_t part, std::int64_t parts);

/// Axis-aligned box of a global tensor, such as the shard of a device or the part that a message
/// carries.
///
/// Says nothing about memory; the functions below address the bytes of a region inside a dense
/// row-major box. A scalar has one region: no intervals, one element.
class Region {
 public:
  Region() = default;
  /// Throws Error(kInvalidArgument) if an interval is empty or reversed.
  explicit Region(std::vector<Interval> intervals);
  /// Returns the region of a whole tensor: [0, extent) in every dimension.
  static Region whole(std::span<const std::int64_t> shape);

  std::span<const Interval> intervals() const { return intervals_; }
  std::size_t rank() const { return intervals_.size(); }
  const Interval& operator[](std::size_t dimension) const { return intervals_[dimension]; }
  /// Returns the extents of the box.
  Shape shape() const;
  std::int64_t num_elements() const;

  /// Returns the overlap with `other`, or nullopt if they are disjoint. [0,4)x[0,8) and
  /// [2,6)x[4,12) overlap in [2,4)x[4,8). Ranks must be equal.
  std::optional<Region> intersect(const Region& other) const;
  bool contains(const Region& other) const;
  /// Returns this region in coordinates relative to a box that contains it: [2,4)x[4,8) inside
  /// [2,6)x[4,12) is [0,2)x[0,4).
  Region relative_to(const Region& box) const;

  friend bool operator==(const Region&, const Region&) = default;
  friend auto operator<=>(const Region& a, const Region& b) {
    return a.intervals_ <=> b.intervals_;
  }

 private:
  std::vector<Interval> intervals_;
};

/// Returns "[0:4,4:8]"; "[]" for a scalar.
std::string to_string(const Region& region);

/// Returns true if `region` is one contiguous run of bytes in the dense row-major memory of `box`.
bool is_contiguous_in(const Region& region, const Region& box);

/// Copies `region` between two dense row-major boxes that both contain it. Each buffer has
/// box.num_elements() * element_size bytes. Throws Error(kInvalidArgument) if `region` is outside a
/// box.
void copy_region(const Region& region, std::size_t element_size, const Region& from_box,
                 std::span<const std::byte> from, const Region& to_box, std::span<std::byte> to);

}  // namespace weft

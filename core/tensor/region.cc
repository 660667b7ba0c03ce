#include "core/tensor/region.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft {

Interval part_of(std::int64_t extent, std::int64_t part, std::int64_t parts) {
  // Computes floor(i e / n) without the product, which could overflow. With e = q n + r, r i < n *
  // n.
  const auto cut = [&](std::int64_t i) {
    return i * (extent / parts) + i * (extent % parts) / parts;
  };
  return {cut(part), cut(part + 1)};
}

Region::Region(std::vector<Interval> intervals) : intervals_(std::move(intervals)) {
  for (std::size_t i = 0; i < intervals_.size(); ++i) {
    if (intervals_[i].begin >= intervals_[i].end) {
      throw_error(ErrorCode::kInvalidArgument,
                  "dimension {} of a region is [{},{}), which is empty", i, intervals_[i].begin,
                  intervals_[i].end);
    }
  }
}

Region Region::whole(std::span<const std::int64_t> shape) {
  std::vector<Interval> intervals;
  intervals.reserve(shape.size());
  for (const std::int64_t extent : shape) intervals.push_back({0, extent});
  return Region(std::move(intervals));
}

Shape Region::shape() const {
  Shape shape;
  shape.reserve(intervals_.size());
  for (const Interval& interval : intervals_) shape.push_back(interval.size());
  return shape;
}

std::int64_t Region::num_elements() const {
  std::int64_t product = 1;
  for (const Interval& interval : intervals_) {
    if (__builtin_mul_overflow(product, interval.size(), &product))
      throw_error(ErrorCode::kInvalidArgument, "a region {} has more than 2^63 - 1 elements",
                  to_string(*this));
  }
  return product;
}

std::optional<Region> Region::intersect(const Region& other) const {
  WEFT_CHECK(rank() == other.rank(), "ranks {} and {}", rank(), other.rank());
  std::vector<Interval> overlap(rank());
  for (std::size_t i = 0; i < rank(); ++i) {
    overlap[i] = {std::max(intervals_[i].begin, other[i].begin),
                  std::min(intervals_[i].end, other[i].end)};
    if (overlap[i].begin >= overlap[i].end) return std::nullopt;
  }
  return Region(std::move(overlap));
}

bool Region::contains(const Region& other) const {
  if (rank() != other.rank()) return false;
  for (std::size_t i = 0; i < rank(); ++i) {
    if (other[i].begin < intervals_[i].begin || other[i].end > intervals_[i].end) return false;
  }
  return true;
}

Region Region::relative_to(const Region& box) const {
  WEFT_CHECK(box.contains(*this), "{} is not inside {}", to_string(*this), to_string(box));
  std::vector<Interval> moved(rank());
  for (std::size_t i = 0; i < rank(); ++i)
    moved[i] = {intervals_[i].begin - box[i].begin, intervals_[i].end - box[i].begin};
  return Region(std::move(moved));
}

std::string to_string(const Region& region) {
  std::string text = "[";
  for (std::size_t i = 0; i < region.rank(); ++i) {
    text += fmt::format("{}{}:{}", i == 0 ? "" : ",", region[i].begin, region[i].end);
  }
  return text + "]";
}

bool is_contiguous_in(const Region& region, const Region& box) {
  // Leading dimensions may have size 1. After the first larger one, all inner dimensions must be
  // full.
  bool wide = false;
  for (std::size_t i = 0; i < region.rank(); ++i) {
    if (wide && region[i].size() != box[i].size()) return false;
    if (region[i].size() != 1) wide = true;
  }
  return true;
}

void copy_region(const Region& region, std::size_t element_size, const Region& from_box,
                 std::span<const std::byte> from, const Region& to_box, std::span<std::byte> to) {
  if (!from_box.contains(region) || !to_box.contains(region)) {
    throw_error(ErrorCode::kInvalidArgument, "region {} is not inside both {} and {}",
                to_string(region), to_string(from_box), to_string(to_box));
  }
  WEFT_CHECK(from.size() == static_cast<std::size_t>(from_box.num_elements()) * element_size);
  WEFT_CHECK(to.size() == static_cast<std::size_t>(to_box.num_elements()) * element_size);
  const std::size_t rank = region.rank();
  const auto from_strides = row_major_strides(from_box.shape());
  const auto to_strides = row_major_strides(to_box.shape());
  std::int64_t from_offset = 0, to_offset = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    from_offset += (region[i].begin - from_box[i].begin) * from_strides[i];
    to_offset += (region[i].begin - to_box[i].begin) * to_strides[i];
  }
  // Innermost dimensions that are dense on both sides form one run.
  std::size_t outer = rank;
  std::int64_t run = 1;
  while (outer > 0 && run == from_strides[outer - 1] && run == to_strides[outer - 1]) {
    run *= region[outer - 1].size();
    --outer;
    if (outer < rank && (region[outer].size() != from_box[outer].size() ||
                         region[outer].size() != to_box[outer].size()))
      break;
  }
  const std::size_t run_bytes = run * element_size;
  std::vector<std::int64_t> index(outer, 0);
  while (true) {
    std::memcpy(to.data() + to_offset * element_size, from.data() + from_offset * element_size,
                run_bytes);
    std::size_t dimension = outer;
    while (dimension > 0) {
      --dimension;
      from_offset += from_strides[dimension];
      to_offset += to_strides[dimension];
      if (++index[dimension] < region[dimension].size()) break;
      from_offset -= from_strides[dimension] * region[dimension].size();
      to_offset -= to_strides[dimension] * region[dimension].size();
      index[dimension] = 0;
      if (dimension == 0) return;
    }
    if (outer == 0) return;
  }
}

}  // namespace weft

#include "transfer/nccl/internal/strided_copies.h"

#include "core/base/check.h"

namespace weft::transfer {
namespace {

BufferPlace shifted(BufferPlace place, std::uint64_t bytes) {
  place.offset += bytes;
  return place;
}

/// Dimensions of a region, outermost first, with their strides in two boxes. The innermost
/// dimension is a run of bytes.
class RegionBytes {
 public:
  RegionBytes(const Region& region, std::size_t element_size, const PlacedBox& from,
              const PlacedBox& to)
      : from_(from.place), to_(to.place) {
    WEFT_CHECK(from.box.contains(region) && to.box.contains(region), "{} in {} and {}",
               to_string(region), to_string(from.box), to_string(to.box));
    dimensions_.push_back({element_size, 1, 1});
    std::uint64_t from_stride = element_size, to_stride = element_size;
    for (std::size_t d = region.rank(); d-- > 0;) {
      from_.offset += (region[d].begin - from.box[d].begin) * from_stride;
      to_.offset += (region[d].begin - to.box[d].begin) * to_stride;
      add_outer({static_cast<std::uint64_t>(region[d].size()), from_stride, to_stride});
      from_stride *= from.box[d].size();
      to_stride *= to.box[d].size();
    }
  }

  /// Returns copies of bytes [begin, end) of the region as a dense run.
  std::vector<StridedCopy> range(std::uint64_t begin, std::uint64_t end) const {
    std::vector<StridedCopy> copies;
    add(0, begin, end, from_, to_, copies);
    return copies;
  }
  std::uint64_t bytes() const { return slice_bytes(0) * dimensions_.front().count; }

 private:
  void add_outer(const StridedCopy::Dimension& outer) {
    StridedCopy::Dimension& inner = dimensions_.front();
    if (outer.count == 1) return;
    if (outer.from_stride == inner.count * inner.from_stride &&
        outer.to_stride == inner.count * inner.to_stride) {
      inner.count *= outer.count;
    } else {
      dimensions_.insert(dimensions_.begin(), outer);
    }
  }
  /// Returns the bytes of one index of dimension d.
  std::uint64_t slice_bytes(std::size_t d) const {
    std::uint64_t bytes = 1;
    for (std::size_t i = d + 1; i < dimensions_.size(); ++i) bytes *= dimensions_[i].count;
    return bytes;
  }
  /// Adds a copy of indices [first, last) of dimension d, with everything inside them.
  void add_slices(std::size_t d, std::uint64_t first, std::uint64_t last, BufferPlace from,
                  BufferPlace to, std::vector<StridedCopy>& copies) const {
    const StridedCopy::Dimension& dimension = dimensions_[d];
    StridedCopy copy{shifted(from, first * dimension.from_stride),
                     shifted(to, first * dimension.to_stride),
                     0,
                     {}};
    if (d + 1 == dimensions_.size()) {
      copy.run_bytes = last - first;
    } else {
      if (last - first > 1)
        copy.outer.push_back({last - first, dimension.from_stride, dimension.to_stride});
      copy.outer.insert(copy.outer.end(), dimensions_.begin() + d + 1, dimensions_.end() - 1);
      copy.run_bytes = dimensions_.back().count;
    }
    copies.push_back(std::move(copy));
  }
  /// Adds copies of bytes [begin, end) of the slice of dimensions d and inner: a head inside one
  /// index, whole indices, a tail.
  void add(std::size_t d, std::uint64_t begin, std::uint64_t end, BufferPlace from, BufferPlace to,
           std::vector<StridedCopy>& copies) const {
    const std::uint64_t slice = slice_bytes(d);
    const auto inside = [&](std::uint64_t index, std::uint64_t b, std::uint64_t e) {
      add(d + 1, b, e, shifted(from, index * dimensions_[d].from_stride),
          shifted(to, index * dimensions_[d].to_stride), copies);
    };
    std::uint64_t first = begin / slice;
    const std::uint64_t last = end / slice;
    if (first == last) return inside(first, begin % slice, end % slice);
    if (begin % slice != 0) inside(first++, begin % slice, slice);
    if (first < last) add_slices(d, first, last, from, to, copies);
    if (end % slice != 0) inside(last, 0, end % slice);
  }

  BufferPlace from_, to_;
  std::vector<StridedCopy::Dimension> dimensions_;
};

}  // namespace

StridedCopy copy_between(const Region& region, std::size_t element_size, const PlacedBox& from,
                         const PlacedBox& to) {
  const RegionBytes bytes(region, element_size, from, to);
  return bytes.range(0, bytes.bytes()).front();
}

std::vector<StridedCopy> gather_copies(const Region& region, std::size_t element_size,
                                       std::uint64_t begin, std::uint64_t bytes,
                                       const PlacedBox& box, const BufferPlace& dense) {
  auto copies = RegionBytes(region, element_size, box, {dense, region}).range(begin, begin + bytes);
  for (StridedCopy& copy : copies) copy.to.offset -= begin;
  return copies;
}

std::vector<StridedCopy> scatter_copies(const Region& region, std::size_t element_size,
                                        std::uint64_t begin, std::uint64_t bytes,
                                        const BufferPlace& dense, const PlacedBox& box) {
  auto copies = RegionBytes(region, element_size, {dense, region}, box).range(begin, begin + bytes);
  for (StridedCopy& copy : copies) copy.from.offset -= begin;
  return copies;
}

}  // namespace weft::transfer

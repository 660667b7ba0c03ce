#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/tensor/region.h"

namespace weft::transfer {

/// Mapping from bytes of a region, seen as a dense run, to a dense row-major box that contains it.
///
/// The box's memory is passed to each call. Example: [1:3,2:4] in [0:4,0:8] of 4-byte elements has
/// 16 bytes, in runs of 8 at offsets 40 and 72. A value; any thread.
class StridedView final {
 public:
  StridedView() = default;
  /// Throws Error(kInvalidArgument) if `region` is not inside `box`.
  StridedView(const Region& region, const Region& box, std::size_t element_size);

  std::size_t bytes() const { return bytes_; }
  /// Returns the offset in the box of [offset, offset + count), if it is contiguous there.
  std::optional<std::size_t> contiguous(std::size_t offset, std::size_t count) const;
  /// Copies [offset, offset + out.size()) out of the box's memory.
  void gather(const std::byte* box, std::size_t offset, std::span<std::byte> out) const;
  /// Copies `in` to [offset, offset + in.size()) in the box's memory.
  void scatter(std::span<const std::byte> in, std::size_t offset, std::byte* box) const;

 private:
  struct Outer {
    std::size_t count, stride;
  };  // stride in bytes
  /// Calls visit(offset in the box, bytes) for each run of the range, in order.
  template <typename Visit>
  void for_each_run(std::size_t offset, std::size_t count, Visit visit) const;
  std::size_t run_start(std::size_t run) const;

  std::size_t bytes_ = 0;
  std::size_t base_ = 0;
  std::size_t run_bytes_ = 0;
  std::vector<Outer> outer_;  // outermost first
};

}  // namespace weft::transfer

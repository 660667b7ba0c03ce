#include "transfer/nccl_plugin/internal/box_copies.h"

namespace weft::transfer {
namespace {

void append(const DeviceCopy& copy, std::vector<BoxCopies>& launches) {
  if (copy.outer.size() > BoxCopy::kDimensions) {
    for (std::uint64_t i = 0; i < copy.outer[0].count; ++i) {
      append({copy.from + i * copy.outer[0].from_stride, copy.to + i * copy.outer[0].to_stride,
              copy.run_bytes, copy.outer.subspan(1)},
             launches);
    }
    return;
  }
  BoxCopy box;
  box.from = copy.from;
  box.to = copy.to;
  box.run_bytes = box.bytes = copy.run_bytes;
  std::uint64_t aligned = reinterpret_cast<std::uintptr_t>(copy.from) |
                          reinterpret_cast<std::uintptr_t>(copy.to) | copy.run_bytes;
  for (const StridedCopy::Dimension& dimension : copy.outer) {
    box.count[box.dimensions] = dimension.count;
    box.from_stride[box.dimensions] = dimension.from_stride;
    box.to_stride[box.dimensions] = dimension.to_stride;
    ++box.dimensions;
    box.bytes *= dimension.count;
    aligned |= dimension.from_stride | dimension.to_stride;
  }
  if (box.bytes == 0) return;
  box.unit = 16;
  while (aligned % box.unit != 0) box.unit /= 2;
  if (launches.empty() || launches.back().count == BoxCopies::kMaxCopies) launches.emplace_back();
  launches.back().copy[launches.back().count++] = box;
}

}  // namespace

std::vector<BoxCopies> box_copies(std::span<const DeviceCopy> copies) {
  std::vector<BoxCopies> launches;
  for (const DeviceCopy& copy : copies) append(copy, launches);
  return launches;
}

}  // namespace weft::transfer

#include "transfer/execute/internal/strided_view.h"

#include <algorithm>
#include <cstring>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::transfer {

StridedView::StridedView(const Region& region, const Region& box, std::size_t element_size) {
  if (!box.contains(region)) {
    throw_error(ErrorCode::kInvalidArgument, "region {} is not inside the buffer's box {}",
                to_string(region), to_string(box));
  }
  bytes_ = region.num_elements() * element_size;
  run_bytes_ = element_size;
  std::size_t stride = element_size;
  bool dense = true;
  for (std::size_t i = region.rank(); i-- > 0;) {
    const std::size_t size = region[i].size(), extent = box[i].size();
    base_ += (region[i].begin - box[i].begin) * stride;
    if (dense) {
      run_bytes_ *= size;
      dense = size == extent;
    } else if (size > 1) {
      outer_.insert(outer_.begin(), {size, stride});
    }
    stride *= extent;
  }
}

std::size_t StridedView::run_start(std::size_t run) const {
  std::size_t at = base_;
  for (std::size_t i = outer_.size(); i-- > 0;) {
    at += run % outer_[i].count * outer_[i].stride;
    run /= outer_[i].count;
  }
  return at;
}

std::optional<std::size_t> StridedView::contiguous(std::size_t offset, std::size_t count) const {
  if (outer_.empty()) return base_ + offset;
  if (offset / run_bytes_ != (offset + count - 1) / run_bytes_) return std::nullopt;
  return run_start(offset / run_bytes_) + offset % run_bytes_;
}

template <typename Visit>
void StridedView::for_each_run(std::size_t offset, std::size_t count, Visit visit) const {
  WEFT_CHECK(offset + count <= bytes_, "[{}, +{}) of {} bytes", offset, count, bytes_);
  if (count == 0) return;
  if (outer_.empty()) return visit(base_ + offset, count);
  std::size_t run = offset / run_bytes_, within = offset % run_bytes_;
  while (count > 0) {
    // Walks the innermost strided dimension as a plain loop; run_start() divides only once per row.
    const Outer& inner = outer_.back();
    std::size_t at = run_start(run);
    for (std::size_t i = run % inner.count; i < inner.count && count > 0;
         ++i, ++run, at += inner.stride) {
      const std::size_t bytes = std::min(count, run_bytes_ - within);
      visit(at + within, bytes);
      count -= bytes;
      within = 0;
    }
  }
}

void StridedView::gather(const std::byte* box, std::size_t offset, std::span<std::byte> out) const {
  std::byte* to = out.data();
  for_each_run(offset, out.size(), [&](std::size_t at, std::size_t bytes) {
    std::memcpy(to, box + at, bytes);
    to += bytes;
  });
}

void StridedView::scatter(std::span<const std::byte> in, std::size_t offset, std::byte* box) const {
  const std::byte* from = in.data();
  for_each_run(offset, in.size(), [&](std::size_t at, std::size_t bytes) {
    std::memcpy(box + at, from, bytes);
    from += bytes;
  });
}

}  // namespace weft::transfer

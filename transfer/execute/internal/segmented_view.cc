#include "transfer/execute/internal/segmented_view.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::transfer {

SegmentedView::SegmentedView(std::span<const Segment> segments, std::span<const TensorPart> tensors,
                             BoxSide side) {
  std::size_t at = 0;
  for (const Segment& segment : segments) {
    const auto refuse = [&](const char* why) {
      throw_error(ErrorCode::kInvalidArgument, "a flow carries {} bytes of {}: {}", segment.bytes,
                  to_string(segment), why);
    };
    if (segment.tensor >= tensors.size()) refuse("the part has no such tensor");
    const TensorPart& tensor = tensors[segment.tensor];
    const std::optional<Region>& box =
        side == BoxSide::kSource ? tensor.source : tensor.destination;
    if (!box)
      refuse(side == BoxSide::kSource ? "this device holds nothing of it"
                                      : "this device wants nothing of it");
    StridedView view(segment.region, *box, size_of(tensor.dtype));
    const std::size_t begin = segment.begin, bytes = segment.bytes;
    if (begin > view.bytes() || bytes > view.bytes() - begin || bytes == 0)
      refuse("the region has fewer bytes");
    pieces_.push_back({std::move(view), segment.tensor, at, begin, bytes});
    at += bytes;
  }
}

std::size_t SegmentedView::piece_at(std::size_t offset) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                       [](std::size_t value, const ViewPiece& piece) { return value < piece.at; });
  return static_cast<std::size_t>(after - pieces_.begin()) - 1;
}

std::optional<SegmentedView::BufferOffset> SegmentedView::contiguous(std::size_t offset,
                                                                     std::size_t count) const {
  const ViewPiece& piece = pieces_[piece_at(offset)];
  if (offset + count > piece.at + piece.bytes) return std::nullopt;
  const auto at = piece.view.contiguous(piece.begin + offset - piece.at, count);
  if (!at) return std::nullopt;
  return BufferOffset{piece.tensor, *at};
}

template <typename Visit>
void SegmentedView::for_each_piece(std::size_t offset, std::size_t count, Visit visit) const {
  WEFT_CHECK(offset + count <= bytes(), "[{}, +{}) of {} bytes", offset, count, bytes());
  std::size_t done = 0;
  for (std::size_t i = piece_at(offset); done < count; ++i) {
    const ViewPiece& piece = pieces_[i];
    const std::size_t within = offset + done - piece.at,
                      bytes = std::min(count - done, piece.bytes - within);
    visit(piece, piece.begin + within, done, bytes);
    done += bytes;
  }
}

void SegmentedView::gather(std::span<const std::span<const std::byte>> buffers, std::size_t offset,
                           std::span<std::byte> out) const {
  for_each_piece(offset, out.size(),
                 [&](const ViewPiece& piece, std::size_t from, std::size_t to, std::size_t bytes) {
                   piece.view.gather(buffers[piece.tensor].data(), from, out.subspan(to, bytes));
                 });
}

void SegmentedView::scatter(std::span<const std::byte> in, std::size_t offset,
                            std::span<const std::span<std::byte>> buffers) const {
  for_each_piece(offset, in.size(),
                 [&](const ViewPiece& piece, std::size_t to, std::size_t from, std::size_t bytes) {
                   piece.view.scatter(in.subspan(from, bytes), to, buffers[piece.tensor].data());
                 });
}

}  // namespace weft::transfer

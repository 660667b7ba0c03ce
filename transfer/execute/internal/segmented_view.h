#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transfer/execute/internal/strided_view.h"
#include "transfer/flow/device_part.h"

namespace weft::transfer {

/// Mapping from bytes of a flow's payload, the concatenation of its segments, to a device's
/// buffers, one per tensor.
///
/// The buffers are passed to each call. A value; any thread.
class SegmentedView final {
 public:
  /// Selects the source or the destination box of each tensor.
  enum class BoxSide : std::uint8_t { kSource, kDestination };

  SegmentedView() = default;
  /// Throws Error(kInvalidArgument) if the device has no such box of a tensor, or if a segment is
  /// not inside it.
  SegmentedView(std::span<const Segment> segments, std::span<const TensorPart> tensors,
                BoxSide side);

  std::size_t bytes() const {
    return pieces_.empty() ? 0 : pieces_.back().at + pieces_.back().bytes;
  }
  struct BufferOffset {
    std::uint32_t tensor;
    std::size_t offset;
    friend bool operator==(const BufferOffset&, const BufferOffset&) = default;
  };
  /// Returns the location of [offset, offset + count), if it is contiguous in one buffer.
  std::optional<BufferOffset> contiguous(std::size_t offset, std::size_t count) const;
  /// Copies [offset, offset + out.size()) out of the buffers.
  void gather(std::span<const std::span<const std::byte>> buffers, std::size_t offset,
              std::span<std::byte> out) const;
  /// Copies `in` to [offset, offset + in.size()) in the buffers.
  void scatter(std::span<const std::byte> in, std::size_t offset,
               std::span<const std::span<std::byte>> buffers) const;

 private:
  struct ViewPiece {
    StridedView view;
    std::uint32_t tensor;
    std::size_t at;     // offset in the payload
    std::size_t begin;  // offset in the view
    std::size_t bytes;
  };
  /// Returns the index of the piece that contains byte `offset` of the payload.
  std::size_t piece_at(std::size_t offset) const;
  /// Calls visit(piece, offset in its view, offset in the range, bytes) for each piece of the
  /// range.
  template <typename Visit>
  void for_each_piece(std::size_t offset, std::size_t count, Visit visit) const;

  std::vector<ViewPiece> pieces_;
};

}  // namespace weft::transfer

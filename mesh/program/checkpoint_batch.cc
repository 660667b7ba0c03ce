#include "mesh/program/checkpoint_batch.h"

#include <algorithm>

namespace weft::mesh {
namespace {

/// Elements of a piece that are contiguous in the buffer and in files.
struct UnpaddedRange {
  std::int64_t at = 0;     ///< First element in the piece.
  std::int64_t first = 0;  ///< First element in the stored parameter.
  std::int64_t count = 0;
};

/// Calls run(const UnpaddedRange&) for each run of elements that are not padding, in order. A piece
/// consists of whole rows.
template <typename Run>
void for_each_stored_run(const CheckpointPiece& piece, const Run& run) {
  if (piece.device_shape == piece.file_shape)
    return run(UnpaddedRange{0, piece.begin, piece.count});
  const std::int64_t columns = piece.device_shape.back();
  UnpaddedRange now;
  for (std::int64_t at = 0; at < piece.count; at += columns) {
    std::int64_t rest = (piece.begin + at) / columns, first = 0, stride = piece.file_shape.back();
    bool is_padding = false;
    for (std::size_t d = piece.device_shape.size() - 1; d-- > 0; rest /= piece.device_shape[d]) {
      const std::int64_t index = rest % piece.device_shape[d];
      is_padding = is_padding || index >= piece.file_shape[d];
      first += index * stride;
      stride *= piece.file_shape[d];
    }
    if (is_padding) continue;
    if (now.at + now.count == at && now.first + now.count == first) {
      now.count += piece.file_shape.back();
    } else {
      if (now.count > 0) run(now);
      now = {at, first, piece.file_shape.back()};
    }
  }
  if (now.count > 0) run(now);
}

StateSlice state_piece(const CheckpointPiece& piece, const UnpaddedRange& run) {
  return {piece.parameter, piece.block, static_cast<std::size_t>(run.first)};
}

/// Returns a piece's part of the driver's buffer.
template <typename Float>
std::span<Float> part_of(std::span<Float> buffer, const CheckpointPiece& piece) {
  return buffer.subspan(piece.offset / sizeof(float), static_cast<std::size_t>(piece.count));
}

}  // namespace

void read_batch(const CheckpointBatch& batch, std::span<const float> buffer,
                const ReadStateSlice& take) {
  for (const CheckpointPiece& piece : batch.pieces)
    for_each_stored_run(piece, [&](const UnpaddedRange& run) {
      take(state_piece(piece, run), part_of(buffer, piece).subspan(run.at, run.count));
    });
}

void fill_batch(const CheckpointBatch& batch, std::span<float> buffer,
                const WriteStateSlice& give) {
  for (const CheckpointPiece& piece : batch.pieces) {
    const std::span<float> part = part_of(buffer, piece);
    if (piece.device_shape != piece.file_shape) std::ranges::fill(part, 0.0F);
    for_each_stored_run(piece, [&](const UnpaddedRange& run) {
      give(state_piece(piece, run), part.subspan(run.at, run.count));
    });
  }
}

std::uint64_t checkpoint_buffer_bytes(const std::vector<CheckpointBatch>& batches) {
  std::uint64_t most = 0;
  for (const CheckpointBatch& batch : batches)
    if (!batch.pieces.empty()) most = std::max(most, batch.pieces.back().end());
  return most;
}

}  // namespace weft::mesh

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/device/optimizer.h"
#include "core/tensor/shape.h"
#include "mesh/program/program.h"

namespace weft::mesh {

/// Name of the driver's block through which checkpoints move to and from files.
inline constexpr const char* kCheckpointBuffer = "checkpoint";

/// Some rows of one state block of a parameter, and their place in the driver's buffer. A value.
struct CheckpointPiece {
  std::uint32_t parameter = 0;  ///< Index into the graph's list of parameters.
  StateBlock block = StateBlock::kValue;
  std::int64_t begin = 0;    ///< First element of the block.
  std::int64_t count = 0;    ///< Number of elements: whole rows without gaps.
  std::uint64_t offset = 0;  ///< Byte offset in the buffer.
  /// Shape of the whole parameter on devices and in the buffer, with padding.
  Shape device_shape = {};
  Shape file_shape = {};  ///< Shape of the whole parameter in files, without padding.

  std::uint64_t bytes() const { return count * sizeof(float); }
  /// Returns the first offset in the buffer at which another piece may begin.
  std::uint64_t end() const { return (offset + bytes() + 63) / 64 * 64; }
};

/// State that fills the driver's buffer once.
struct CheckpointBatch {
  std::vector<CheckpointPiece> pieces;
  /// Programs "gather.0", ...: move the state from the first replica of each shard, or from its
  /// copy, to the driver, whose program is the last.
  std::vector<Program> gather;
  /// Programs "scatter.0", ...: move the state from the driver to every device and round the
  /// working copies of bf16 parameters.
  std::vector<Program> scatter;
};

/// Calls `take` for each contiguous run of stored elements of a gathered batch, without padding.
void read_batch(const CheckpointBatch& batch, std::span<const float> buffer,
                const ReadStateSlice& take);
/// Fills the driver's buffer with a batch to scatter: calls `give` for each contiguous run of
/// stored elements, and sets padding to zero.
void fill_batch(const CheckpointBatch& batch, std::span<float> buffer, const WriteStateSlice& give);

/// Returns the size of the driver's buffer for these batches, in bytes.
std::uint64_t checkpoint_buffer_bytes(const std::vector<CheckpointBatch>& batches);

}  // namespace weft::mesh

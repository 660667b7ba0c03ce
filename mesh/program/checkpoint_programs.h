#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/device/optimizer.h"
#include "mesh/program/compile.h"
#include "mesh/program/parameter_blocks.h"

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

/// Source of gathered checkpoints. With kCopies, parameters may change during the gather.
enum class GatherFrom : std::uint8_t { kParameters, kCopies };

/// Compiles programs that move all parameters with both moments, in f32, between the meshes and the
/// driver, batch by batch. The driver holds at most `buffer_bytes` at a time: a tensor that fits is
/// not cut; a larger one is cut into slices of whole rows, at least one row each. The buffer grows
/// if there would be more than 1024 batches. The batches together contain every element of every
/// block once. `driver` must be in the topology.
std::vector<CheckpointBatch> compile_checkpoint(const Partition& partition,
                                                transfer::DeviceId driver,
                                                const transfer::Topology& topology,
                                                std::uint64_t buffer_bytes,
                                                GatherFrom from = GatherFrom::kParameters);

/// Compiles the programs "copy" of all devices but the driver. They fill the copies in host memory
/// from which batches are gathered.
std::vector<Program> compile_checkpoint_copy(const std::vector<CheckpointBatch>& batches);

/// Calls `take` for each contiguous run of stored elements of a gathered batch, without padding.
void read_batch(const CheckpointBatch& batch, std::span<const float> buffer,
                const ReadStateSlice& take);
/// Fills the driver's buffer with a batch to scatter: calls `give` for each contiguous run of
/// stored elements, and sets padding to zero.
void fill_batch(const CheckpointBatch& batch, std::span<float> buffer, const WriteStateSlice& give);

/// Returns the size of the driver's buffer for these batches, in bytes.
std::uint64_t checkpoint_buffer_bytes(const std::vector<CheckpointBatch>& batches);

}  // namespace weft::mesh

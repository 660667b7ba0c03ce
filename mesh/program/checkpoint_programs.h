#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/device/optimizer.h"
#include "mesh/program/compile.h"
#include "mesh/program/parameter_blocks.h"

namespace weft::mesh {

/// The driver's block that checkpoints pass through, on their way to a file or from it.
inline constexpr const char* kCheckpointBuffer = "checkpoint";

/// Some rows of one block of a parameter, and where the driver's buffer has them. A value.
struct CheckpointPiece {
  std::uint32_t parameter = 0;  ///< In the graph's list of parameters.
  StateBlock block = StateBlock::kValue;
  std::int64_t begin = 0;    ///< The first of its elements,
  std::int64_t count = 0;    ///< and how many, row by row without gaps.
  std::uint64_t offset = 0;  ///< Bytes from the start of the buffer.
  Shape held = {};           ///< Of the whole parameter, as devices and the buffer have it,
  Shape stored = {};         ///< and as files do: without padding.
};

/// What passes through the driver's buffer at a time.
struct CheckpointBatch {
  std::vector<CheckpointPiece> pieces;
  /// "gather.0", ...: from the first replica of each shard, or its copy, to the driver, whose
  /// program is the last.
  std::vector<Program> gather;
  /// "scatter.0", ...: from the driver to every device; rounds the working copies of bf16
  /// parameters.
  std::vector<Program> scatter;
};

/// Whether checkpoints are gathered from copies, so that parameters may change meanwhile.
enum class GatherFrom : std::uint8_t { kParameters, kCopies };

/// Programs that move every parameter as the optimizer has it, in f32 with its two moments, between
/// the meshes and the driver, a batch after the other, so that the driver holds no more than
/// `buffer_bytes` of them: tensors as they fit, larger ones in slices of rows (one row is the
/// least); the buffer grows where there would be more than 1024 batches. Together they have every
/// element of every block once. `driver` must be in the topology.
std::vector<CheckpointBatch> compile_checkpoint(const Partition& partition,
                                                transfer::DeviceId driver,
                                                const transfer::Topology& topology,
                                                std::uint64_t buffer_bytes,
                                                GatherFrom from = GatherFrom::kParameters);

/// Programs "copy", of all devices but the driver: they fill the copies that batches are gathered
/// from, which lie in host memory.
std::vector<Program> compile_checkpoint_copy(const std::vector<CheckpointBatch>& batches);

/// Hands over what the driver's buffer has of a batch that was gathered; fills it with what is to
/// be scattered. Without padding, in as many pieces as that makes.
void take_pieces(const CheckpointBatch& batch, std::span<const float> buffer,
                 const TakePiece& take);
void give_pieces(const CheckpointBatch& batch, std::span<float> buffer, const GivePiece& give);

/// What the driver's buffer takes under these batches.
std::uint64_t checkpoint_buffer_bytes(const std::vector<CheckpointBatch>& batches);

}  // namespace weft::mesh

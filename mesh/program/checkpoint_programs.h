#pragma once

#include <cstdint>
#include <vector>

#include "mesh/program/checkpoint_batch.h"
#include "mesh/program/compile.h"
#include "mesh/program/parameter_blocks.h"

namespace weft::mesh {

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

}  // namespace weft::mesh

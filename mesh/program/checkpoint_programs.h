#pragma once

#include "mesh/program/compile.h"
#include "mesh/program/parameter_blocks.h"

namespace weft::mesh {

/// Which way parameters and moments travel.
enum class CheckpointDirection : std::uint8_t {
  kGather,   ///< From the first replica of each shard to the driver, which writes them.
  kScatter,  ///< From the driver, which has read them, to every device.
};

/// Programs that move every parameter as the optimizer has it, in f32 with its two moments, between the meshes and the driver,
/// which holds them whole (mesh/program/parameter_blocks.h). Scattering rounds the working copies of bf16 parameters. The last
/// program is the driver's. `driver` must be in the topology. Named "gather" and "scatter".
std::vector<Program> compile_checkpoint(const Partition& partition, CheckpointDirection direction, transfer::DeviceId driver,
                                        const transfer::Topology& topology);

}  // namespace weft::mesh

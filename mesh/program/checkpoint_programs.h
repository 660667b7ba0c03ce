#pragma once

#include "mesh/program/compile.h"

namespace weft::mesh {

/// Which way parameters and moments travel.
enum class CheckpointDirection : std::uint8_t {
  kGather,   ///< From the first replica of each shard to the driver, which writes them.
  kScatter,  ///< From the driver, which has read them, to every device.
};

/// Programs that move every parameter, with its two moments, between the meshes and the driver, which holds them whole. The last
/// program is the driver's. `driver` must be in the topology. Named "gather" and "scatter".
std::vector<Program> compile_checkpoint(const Partition& partition, CheckpointDirection direction, transfer::DeviceId driver,
                                        const transfer::Topology& topology);

/// The blocks of one parameter: "parameter/h0.weight", "first_moment/h0.weight", "second_moment/h0.weight".
std::vector<std::string> checkpoint_blocks(const std::string& parameter);

}  // namespace weft::mesh

#pragma once

#include <cstdint>

#include "mesh/runtime/storage.h"

namespace weft::mesh {

/// Fills this device's shards of the program's parameters with their initial values, which depend
/// on the seed and on each element's place in the whole parameter only, rounds their working
/// copies, and zeroes the moments.
void initialize_parameters(const Program& program, std::uint64_t seed, Storage& storage,
                           Stream& stream);

}  // namespace weft::mesh

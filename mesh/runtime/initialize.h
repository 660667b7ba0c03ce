#pragma once

#include <cstdint>

#include "mesh/runtime/storage.h"

namespace weft::mesh {

/// Sets this device's shards of the program's parameters to their initial values, rounds their
/// working copies, and zeroes the moments. An element's value depends only on the seed and its
/// index in the whole parameter.
void initialize_parameters(const Program& program, std::uint64_t seed, Storage& storage,
                           Stream& stream);

}  // namespace weft::mesh

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/graph/graph.h"
#include "core/tensor/region.h"

namespace weft {

/// Writes the initial values of one region of a parameter, dense and row-major, into `values`,
/// which has region.num_elements() elements.
///
/// An element depends on (seed, name, its index in the whole tensor) only, so every sharding starts
/// from equal values. The part of the region beyond the shape is padding and becomes 0. Throws
/// Error(kInvalidArgument) if the region has another rank, or another size than `values`.
void fill_parameter(std::string_view name, const Shape& shape, const Region& region,
                    const Initializer& initializer, std::uint64_t seed, std::span<float> values);

}  // namespace weft

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/graph/graph.h"
#include "core/tensor/region.h"

namespace weft {

/// Writes the initial values of one region of a parameter, dense and row-major, into `values`
/// (region.num_elements() of them).
///
/// An element's value depends on (seed, name, its index in the whole tensor) alone, so every way to
/// shard a parameter starts from equal values. What the region has beyond the shape is padding: 0.
/// Throws Error(kInvalidArgument) if the region has another rank, or another size than `values`.
void fill_parameter(std::string_view name, const Shape& shape, const Region& region,
                    const Initializer& initializer, std::uint64_t seed, std::span<float> values);

}  // namespace weft

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/machine.h"
#include "core/graph/graph.h"
#include "core/tensor/region.h"

namespace weft {

/// Number of elements that a thread of fill_parameter() draws at a time; about a millisecond.
inline constexpr std::size_t kFillChunk = std::size_t{1} << 15;

/// Writes the initial values of one region of a parameter, dense and row-major, into `values`,
/// which has region.num_elements() elements.
///
/// An element depends on (seed, name, its index in the whole tensor) only, so every sharding starts
/// from equal values, and any number of threads gives equal bits. The part of the region beyond
/// the shape is padding and becomes 0. Throws Error(kInvalidArgument) if the region has another
/// rank, or another size than `values`.
void fill_parameter(std::string_view name, const Shape& shape, const Region& region,
                    const Initializer& initializer, std::uint64_t seed, std::span<float> values,
                    unsigned threads = num_processors());

}  // namespace weft

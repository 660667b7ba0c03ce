#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

/// The same function, done in different ways.
using Crc32c = std::uint32_t (*)(std::span<const std::byte> bytes);

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes);
/// By the processor's own instruction; nullptr where this processor has none.
Crc32c crc32c_of_processor();

}  // namespace weft

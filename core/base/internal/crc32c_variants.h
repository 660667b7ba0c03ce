#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

/// Implementation of crc32c().
using Crc32c = std::uint32_t (*)(std::span<const std::byte> bytes);

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes);
/// Returns the implementation that uses the processor's CRC32 instruction, or nullptr if the
/// processor has none.
Crc32c crc32c_of_processor();

}  // namespace weft

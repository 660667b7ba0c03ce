#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

/// CRC32C (Castagnoli; iSCSI, RFC 3720 appendix B.4) of `bytes`. crc32c("123456789") is 0xe3069283.
/// By the processor's instruction where it has one, found out at run time: about 10 GB/s; else by
/// tables, about 1 GB/s. Any thread.
std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace weft

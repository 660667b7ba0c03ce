#include "core/base/crc32c.h"

#include "core/base/internal/crc32c_variants.h"

namespace weft {

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  static const Crc32c chosen =
      crc32c_of_processor() != nullptr ? crc32c_of_processor() : &crc32c_by_table;
  return chosen(bytes);
}

}  // namespace weft

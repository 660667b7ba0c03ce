#pragma once

#include <cstdint>
#include <string>

namespace weft {

/// "512 B", "1.5 KiB", "64 MiB", "1.2 GiB".
std::string format_bytes(std::uint64_t bytes);

/// "850 us", "12.3 ms", "4.2 s", "3 min 05 s".
std::string format_seconds(double seconds);

}  // namespace weft

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

/// Returns "512 B", "1.5 KiB", "64 MiB", "1.2 GiB".
std::string format_bytes(std::uint64_t bytes);

/// Returns "850 us", "12.3 ms", "4.2 s", "3 min 05 s".
std::string format_seconds(double seconds);

/// Returns the bytes per second of "10gbit", "250mbit" (bits, powers of 1000) or "114MiB" (bytes,
/// powers of 1024). Nullopt unless it is a positive number with one of kbit, mbit, gbit, KiB, MiB,
/// GiB.
std::optional<double> parse_rate(std::string_view text);

}  // namespace weft

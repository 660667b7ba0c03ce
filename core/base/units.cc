#include "core/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace weft {

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const bool whole = std::abs(value - std::round(value)) < 0.05;
  return whole ? fmt::format("{:.0f} {}", value, kUnits[unit])
               : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  const std::int64_t whole = std::lround(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::optional<double> parse_rate(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"kbit", 1e3 / 8}, {"mbit", 1e6 / 8},  {"gbit", 1e9 / 8},
      {"KiB", 1024.0},   {"MiB", 1048576.0}, {"GiB", 1073741824.0}};
  for (const auto& [unit, bytes] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::string_view digits = text.substr(0, text.size() - unit.size());
    double number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size() && number > 0 &&
        std::isfinite(number * bytes))
      return number * bytes;
  }
  return std::nullopt;
}

}  // namespace weft

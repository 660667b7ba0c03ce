// Values with units: durations, sizes, rates.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/config/config_node.h"
#include "core/config/internal/config_tree.h"
#include "core/config/internal/parse_number.h"

namespace weft {
namespace {

/// Splits "1.5GiB" into 1.5 and "GiB".
std::optional<std::pair<double, std::string_view>> quantity(std::string_view text) {
  const auto unit = std::min(text.find_first_not_of("0123456789.+-"), text.size());
  const auto value = internal::parse_number<double>(text.substr(0, unit));
  text.remove_prefix(unit);
  while (text.starts_with(' ')) text.remove_prefix(1);
  if (!value || *value < 0) return std::nullopt;
  return std::pair(*value, text);
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes == 0) return "0";
  for (const auto& [unit, shift] :
       {std::pair("TiB", 40), std::pair("GiB", 30), std::pair("MiB", 20), std::pair("KiB", 10)})
    if (bytes % (std::uint64_t{1} << shift) == 0) return fmt::format("{}{}", bytes >> shift, unit);
  return fmt::format("{}B", bytes);
}

}  // namespace

std::string internal::yaml_text(Nanoseconds value) {
  if (value == Nanoseconds::zero()) return "0s";
  static const std::vector<std::pair<std::string_view, std::int64_t>> kUnits = {
      {"h", 3'600'000'000'000}, {"min", 60'000'000'000}, {"s", 1'000'000'000}, {"ms", 1'000'000}};
  for (const auto& [unit, factor] : kUnits)
    if (value.count() % factor == 0) return fmt::format("{}{}", value.count() / factor, unit);
  return fmt::format("{}ns", value.count());
}

Nanoseconds ConfigNode::as_duration(Nanoseconds min, Nanoseconds max) const {
  if (is_outline()) {
    internal::describe_duration(described());
    return min;
  }
  static const std::vector<std::pair<std::string_view, double>> kUnits = {
      {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}};
  const auto parsed = quantity(scalar("a duration with its unit, such as 250ms, 5s, 2min").text);
  if (parsed) {
    for (const auto& [unit, factor] : kUnits) {
      if (parsed->second != unit || parsed->first * factor > 9e18) continue;
      const Nanoseconds result(static_cast<std::int64_t>(std::llround(parsed->first * factor)));
      if (result < min)
        mismatch(fmt::format("a duration of at least {}",
                             format_seconds(std::chrono::duration<double>(min).count())));
      if (result > max)
        mismatch(fmt::format("a duration of at most {}",
                             format_seconds(std::chrono::duration<double>(max).count())));
      return result;
    }
  }
  mismatch("a duration with its unit, such as 250ms, 5s, 2min");
}

bool ConfigNode::read_bytes(std::string_view key, std::uint64_t& out, const KeyDescription& text,
                            Range<std::uint64_t> range) const {
  if (is_outline()) {
    ConfigKey& described = declare(key, text, Presence::kOptional);
    described.type = ConfigKey::Type::kBytes;
    described.type_text =
        text.type().empty() ? "size, such as 64KiB, 1.5GiB" : std::string(text.type());
    set_default(described, bytes_text(out), text);
    return false;
  }
  return read_into(key, Presence::kOptional,
                   [&](const ConfigNode& node) { out = node.as_bytes(range); });
}

bool ConfigNode::read_rate(std::string_view key, double& out, const KeyDescription& text) const {
  if (is_outline()) {
    ConfigKey& described = declare(key, text, Presence::kOptional);
    described.type = ConfigKey::Type::kRate;
    described.type_text = "rate, such as 10gbit, 250mbit, 114MiB (a second)";
    return false;
  }
  return read_into(key, Presence::kOptional, [&](const ConfigNode& node) { out = node.as_rate(); });
}

std::uint64_t ConfigNode::as_bytes(Range<std::uint64_t> range) const {
  static const std::vector<std::pair<std::string_view, double>> kUnits = {{"B", 1},
                                                                          {"KiB", 1024.0},
                                                                          {"MiB", 1048576.0},
                                                                          {"GiB", 1073741824.0},
                                                                          {"TiB", 1099511627776.0},
                                                                          {"kB", 1e3},
                                                                          {"KB", 1e3},
                                                                          {"MB", 1e6},
                                                                          {"GB", 1e9},
                                                                          {"TB", 1e12}};
  const auto parsed = quantity(scalar("a size with its unit, such as 64KiB, 1.5GiB").text);
  if (parsed) {
    for (const auto& [unit, factor] : kUnits) {
      const bool its = parsed->second == unit || (parsed->first == 0 && parsed->second.empty());
      if (!its || parsed->first * factor > 9e18) continue;
      const std::uint64_t result = std::llround(parsed->first * factor);
      if (range.min && result < *range.min)
        mismatch(fmt::format("a size of at least {}", format_bytes(*range.min)));
      if (range.max && result > *range.max)
        mismatch(fmt::format("a size of at most {}", format_bytes(*range.max)));
      return result;
    }
  }
  mismatch("a size with its unit, such as 64KiB, 1.5GiB");
}

double ConfigNode::as_rate() const {
  const char* expected = "a rate with its unit, such as 10gbit, 250mbit, 114MiB (a second)";
  if (const auto rate = parse_rate(scalar(expected).text)) return *rate;
  mismatch(expected);
}

}  // namespace weft

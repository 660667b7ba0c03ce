#include "actors/head/amounts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/name.h"
#include "core/base/units.h"

namespace weft::actors {
namespace {

constexpr std::int64_t kThousandths = 1000;
/// Limit of each number, far above any host.
constexpr double kMost = 1e9;
constexpr std::array<std::string_view, 3> kOwnNames = {kDevicesName, kCpusName, kMemoryName};

std::int64_t thousandths_of(const std::string& what, const std::string& name, double number) {
  if (!std::isfinite(number) || number < 0 || number > kMost)
    throw_error(ErrorCode::kInvalidArgument, "{}: {} {}: expected a number from 0 to {:.0f}", what,
                name, number, kMost);
  const auto amount = static_cast<std::int64_t>(std::llround(number * kThousandths));
  if (number > 0 && amount == 0)
    throw_error(ErrorCode::kInvalidArgument, "{}: {} {}: expected 0, or at least 0.001", what, name,
                number);
  return amount;
}

/// Returns the resources in the order of texts: devices, cpus, memory, others by name.
std::vector<std::string> ordered_names(const Amounts& amounts) {
  std::vector<std::string> names;
  for (const std::string_view own : kOwnNames)
    if (amounts.contains(std::string(own))) names.emplace_back(own);
  for (const auto& [name, amount] : amounts)
    if (std::ranges::find(kOwnNames, name) == kOwnNames.end()) names.push_back(name);
  return names;
}

}  // namespace

Amounts amounts_of(const std::string& what, const Resources& resources) {
  Amounts amounts;
  const auto put = [&](const std::string& name, std::int64_t amount) {
    if (amount > 0) amounts[name] = amount;
  };
  put(kDevicesName, resources.devices);
  put(kCpusName, thousandths_of(what, kCpusName, resources.cpus));
  constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 50;
  if (resources.memory > kMostMemory)
    throw_error(ErrorCode::kInvalidArgument, "{}: memory {}: expected at most {}", what,
                format_bytes(resources.memory), format_bytes(kMostMemory));
  put(kMemoryName, static_cast<std::int64_t>(resources.memory));
  for (const auto& [name, number] : resources.custom) {
    check_name(what + ": the name of a resource", name);
    if (std::ranges::find(kOwnNames, name) != kOwnNames.end())
      throw_error(ErrorCode::kInvalidArgument,
                  "{}: '{}' is a resource of every host; give it by its own field, or use another "
                  "name",
                  what, name);
    put(name, thousandths_of(what, name, number));
  }
  return amounts;
}

Resources resources_of(const Amounts& amounts) {
  Resources resources;
  for (const auto& [name, amount] : amounts) {
    const double number = static_cast<double>(amount) / kThousandths;
    if (name == kDevicesName) resources.devices = static_cast<std::uint32_t>(amount);
    else if (name == kCpusName) resources.cpus = number;
    else if (name == kMemoryName) resources.memory = static_cast<std::uint64_t>(amount);
    else resources.custom[name] = number;
  }
  return resources;
}

std::int64_t amount_of(const Amounts& amounts, const std::string& name) {
  const auto found = amounts.find(name);
  return found == amounts.end() ? 0 : found->second;
}

void add(Amounts& to, const Amounts& more) {
  for (const auto& [name, amount] : more) to[name] += amount;
}

void subtract(Amounts& from, const Amounts& less) {
  for (const auto& [name, amount] : less) {
    const auto found = from.find(name);
    if (found == from.end()) continue;
    found->second -= amount;
    if (found->second <= 0) from.erase(found);
  }
}

bool fits(const Amounts& needs, const Amounts& free) {
  return std::ranges::all_of(
      needs, [&](const auto& need) { return need.second <= amount_of(free, need.first); });
}

std::string amount_text(const std::string& name, std::int64_t amount) {
  if (name == kDevicesName) return fmt::format("{}", amount);
  if (name == kMemoryName) return format_bytes(static_cast<std::uint64_t>(amount));
  return fmt::format("{}", static_cast<double>(amount) / kThousandths);
}

std::string to_string(const Amounts& amounts) {
  std::vector<std::string> parts;
  for (const std::string& name : ordered_names(amounts))
    parts.push_back(fmt::format("{} {}", name, amount_text(name, amounts.at(name))));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::string to_string(const std::vector<Amounts>& needs) {
  std::vector<std::string> parts;
  for (std::size_t first = 0; first < needs.size();) {
    std::size_t end = first + 1;
    while (end < needs.size() && needs[end] == needs[first]) ++end;
    parts.push_back(end == first + 1
                        ? to_string(needs[first])
                        : fmt::format("{} x {}", end - first, to_string(needs[first])));
    first = end;
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace weft::actors

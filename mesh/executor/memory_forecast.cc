#include "mesh/executor/memory_forecast.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/units.h"

namespace weft::mesh {

std::optional<std::string> find_memory_shortage(
    const std::map<std::string, MemoryForecast>& machines) {
  for (const auto& [name, machine] : machines) {
    if (!machine.free) continue;
    const std::uint64_t left = *machine.free - std::min(machine.needed, *machine.free);
    if (machine.copies <= left / 2) continue;
    return fmt::format(
        "a copy of parameters and moments needs {} on machine {}, where the run leaves {} free, "
        "and "
        "may take half of that",
        format_bytes(machine.copies), name, format_bytes(left));
  }
  return std::nullopt;
}

}  // namespace weft::mesh

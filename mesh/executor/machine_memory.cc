#include "mesh/executor/machine_memory.h"

#include <fmt/format.h>

#include "core/base/units.h"

namespace weft::mesh {

std::optional<std::string> short_of_memory(const std::map<std::string, MachineMemory>& machines) {
  for (const auto& [name, machine] : machines) {
    if (!machine.free || machine.wanted <= *machine.free / 2) continue;
    return fmt::format(
        "copies of parameters and moments take {} on machine {}, more than half of the {} that it "
        "has free",
        format_bytes(machine.wanted), name, format_bytes(*machine.free));
  }
  return std::nullopt;
}

}  // namespace weft::mesh

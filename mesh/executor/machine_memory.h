#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace weft::mesh {

/// What the devices of one machine want to keep in its memory for checkpoints, all together, and
/// what it has free.
struct MachineMemory {
  std::uint64_t wanted = 0;
  /// Nothing where the machine does not tell: then it is taken to be enough.
  std::optional<std::uint64_t> free;
};

/// Copies for checkpoints may take half of what a machine has free. Why they must not be made, by
/// the first machine, by name, on which they would take more; nothing where there is none. Pure.
std::optional<std::string> short_of_memory(const std::map<std::string, MachineMemory>& machines);

}  // namespace weft::mesh

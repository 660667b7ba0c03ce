#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace weft::mesh {

/// What a run is going to take of one machine's memory, in bytes, and what is free there before.
struct MachineMemory {
  std::uint64_t needed = 0;  ///< By its devices and its driver, without copies.
  std::uint64_t copies = 0;  ///< For checkpoints.
  /// Nothing where the machine does not tell: then it is taken to be enough.
  std::optional<std::uint64_t> free;
};

/// Copies for checkpoints may take half of what the run leaves free on a machine. Why they must not
/// be made, by the first machine, by name, on which they would take more; nothing where there is
/// none. Pure.
std::optional<std::string> short_of_memory(const std::map<std::string, MachineMemory>& machines);

}  // namespace weft::mesh

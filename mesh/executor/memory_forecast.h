#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace weft::mesh {

/// Memory that a run needs on one machine and the memory free before it starts, in bytes.
struct MemoryForecast {
  std::uint64_t needed = 0;  ///< Bytes for its devices and its driver, without copies.
  std::uint64_t copies = 0;  ///< Bytes of copies for checkpoints and recovery.
  /// Unknown if absent; then memory is assumed to suffice.
  std::optional<std::uint64_t> free;
};

/// Checks that copies take at most half of the memory that the run leaves free on each machine.
/// Returns the reason for the first machine by name that is too small, or nothing. Pure.
std::optional<std::string> find_memory_shortage(
    const std::map<std::string, MemoryForecast>& machines);

}  // namespace weft::mesh

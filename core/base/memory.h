#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace weft {

/// Bytes that this machine could give to a process now (MemAvailable), or what the process's
/// control group is still allowed, whichever is less; nothing where the system does not tell.
/// `root` is "/", but for tests.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& root = "/");

/// The most memory that this process has had in use at a time (VmHWM), in bytes; 0 where the system
/// does not tell.
std::uint64_t peak_resident_bytes();

/// What this process has had read from disks and written to them, in bytes; what came from the page
/// cache is none of it.
struct DiskBytes {
  std::uint64_t read = 0, written = 0;
};
DiskBytes disk_bytes();

}  // namespace weft

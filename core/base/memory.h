#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace weft {

/// Bytes that this machine could give to a process now (MemAvailable), or what the process's
/// control group or its limit on data (RLIMIT_DATA) still allows, whichever is least; nothing where
/// the system does not tell. `root` is "/", but for tests.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& root = "/");

/// What this process's limit on data (RLIMIT_DATA) leaves of private memory that may be written to,
/// touched or not; nothing without such a limit.
std::optional<std::uint64_t> available_data(const std::filesystem::path& root = "/");

/// The most memory that this process has had in use at a time (VmHWM), in bytes; 0 where the system
/// does not tell.
std::uint64_t peak_resident_bytes();

/// What this process has had read from disks and written to them, in bytes; what came from the page
/// cache is none of it.
struct DiskBytes {
  std::uint64_t read = 0, written = 0;
};
DiskBytes disk_bytes();

/// For those who ask the system for memory in other ways than `new`: throws
/// Error(kResourceExhausted), "the host has no 3 MiB of memory left for a device", and what the
/// new-handler says, where there is one, such as which cap the process has.
[[noreturn]] void throw_out_of_memory(std::size_t bytes, std::string_view for_what);

}  // namespace weft

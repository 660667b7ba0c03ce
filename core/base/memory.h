#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace weft {

/// Returns the bytes of memory that this process can still get: the least of MemAvailable, of what
/// its control groups allow, and of what RLIMIT_DATA allows. Nullopt if none of them can be read.
/// `root` differs from "/" in tests only.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& root = "/");

/// Returns the bytes of memory that this process and others may use together: the least of MemTotal
/// and of the limits of its control groups. 0 if none of them can be read.
std::uint64_t total_memory(const std::filesystem::path& root = "/");
/// Like available_memory(), but for memory that processes share (memfd, MAP_SHARED): RLIMIT_DATA
/// does not limit it.
std::optional<std::uint64_t> available_shared_memory(const std::filesystem::path& root = "/");

/// Returns the bytes of private writable memory, touched or not, that RLIMIT_DATA still allows.
/// Nullopt if there is no such limit.
std::optional<std::uint64_t> available_data(const std::filesystem::path& root = "/");

/// Returns the peak memory of this process in bytes (VmHWM), or 0 if it cannot be read.
std::uint64_t peak_resident_bytes();

/// Bytes that this process caused to be read from and written to disks. Reads from the page cache
/// do not count.
struct DiskBytes {
  std::uint64_t read = 0, written = 0;
};
DiskBytes disk_bytes();

/// Lets the allocator keep freed memory: blocks up to 32 MiB are reused, and at most 64 MiB of an
/// arena's unused end stay. These are the limits that glibc approaches by itself when large blocks
/// are freed. By default a process that uses blocks of 1 MiB returns each one to the system, and
/// the page faults of the next one cost more than to send it.
void keep_freed_memory();

/// Throws Error(kResourceExhausted): "the host has no 3 MiB of memory left for a device". Appends
/// the text of the new-handler, if there is one, such as the memory cap of the process. Meant for
/// memory that is not allocated by `new`.
[[noreturn]] void throw_out_of_memory(std::size_t bytes, std::string_view for_what);

}  // namespace weft

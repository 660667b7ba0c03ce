#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace weft {

/// Flushes a folder's entries, or a file, to the disk. Throws Error(kUnavailable).
void flush_to_disk(const std::filesystem::path& path);

/// Under which name this thread writes a file that is to appear as `path` when it is whole: no
/// other one of the machine writes to it, though it may be at the same file.
std::filesystem::path unfinished(const std::filesystem::path& path);

/// Writes a small file so that its readers see the old content or the new. A crash of the machine
/// may lose it. `mode`: as of chmod(), less the umask. Throws Error(kUnavailable).
void write_whole(const std::filesystem::path& path, const std::string& content, ::mode_t mode);

/// Writes a small file so that a crash leaves the old content or the new, and it is on the disk on
/// return. Throws Error(kUnavailable).
void replace_file(const std::filesystem::path& path, const std::string& content);

}  // namespace weft

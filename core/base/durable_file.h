#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace weft {

/// Flushes a file, or the entries of a folder, to disk. Throws Error(kUnavailable).
void flush_to_disk(const std::filesystem::path& path);

/// Returns the temporary name under which the calling thread writes a file before renaming it to
/// `path`. No other thread on this machine uses the same name, even for the same `path`.
std::filesystem::path temporary_name_of(const std::filesystem::path& path);

/// Renames a file or folder. Throws Error(kUnavailable).
void rename_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// Writes a file in place, which may also be a pipe or a device. Throws Error(kUnavailable).
void write_in_place(const std::filesystem::path& path, const std::string& content);

/// Writes a small file atomically: readers see the old or the new content. A crash of the machine
/// may lose the new content. `mode` is that of chmod(), minus the umask. Throws
/// Error(kUnavailable).
void write_atomically(const std::filesystem::path& path, const std::string& content, ::mode_t mode);

/// Writes a small file atomically and durably: it is on disk on return, and a crash leaves the old
/// or the new content. Throws Error(kUnavailable).
void write_durably(const std::filesystem::path& path, const std::string& content);

}  // namespace weft

#pragma once

#include <filesystem>
#include <string>

namespace weft::actors {

/// The SHA-256 of an executable, 64 hexadecimal digits, taken once for all processes of a user on
/// this machine: kept in `folder`, and good as long as the file's place, size and times of change
/// are the same. Without a folder (empty), where nothing can be written, and of a file that has
/// changed in the last second, it is taken each time. Waits a moment while another process takes
/// it. Throws Error(kNotFound) where there is no such file.
std::string binary_sha256(const std::filesystem::path& binary, const std::filesystem::path& folder);

}  // namespace weft::actors

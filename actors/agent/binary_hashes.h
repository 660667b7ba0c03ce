#pragma once

#include <filesystem>
#include <string>

namespace weft::actors {

/// Returns the SHA-256 of an executable as 64 hexadecimal digits. Keeps it in `folder` for all
/// processes of this user, and reuses it while path, inode, size and times of the file are the
/// same. Computes it each time if `folder` is empty or cannot be written, or if the file changed in
/// the last second. Waits up to 1 s for another process that computes it. Throws Error(kNotFound)
/// if there is no such file.
std::string binary_sha256(const std::filesystem::path& binary, const std::filesystem::path& folder);

/// Throws Error(kIncompatible) if an executable is missing on this host, or its SHA-256 differs
/// from that of the driver. `host`: name of this host. `folder`: cache of binary_sha256().
void check_binary(const std::string& host, const std::string& binary, const std::string& sha256,
                  const std::filesystem::path& folder);

}  // namespace weft::actors

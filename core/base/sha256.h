#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace weft {

/// SHA-256 as 64 lower-case hexadecimal digits.
std::string sha256(std::span<const std::byte> bytes);

/// SHA-256 of a file's content. Throws Error(kNotFound) if it cannot be read.
std::string sha256_file(const std::filesystem::path& path);

}  // namespace weft

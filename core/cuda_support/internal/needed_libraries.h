#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace weft {

/// Returns the shared libraries that a shared library requires (DT_NEEDED), in its order:
/// "libcudart.so.13", "libc.so.6". Throws Error(kIncompatible) if the file is not a 64-bit
/// little-endian ELF file, Error(kNotFound) if it cannot be read.
std::vector<std::string> needed_libraries(const std::filesystem::path& library);

}  // namespace weft

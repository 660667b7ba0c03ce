#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace weft {

/// The shared libraries that a shared library asks the dynamic loader for (DT_NEEDED), in its
/// order: "libcudart.so.13", "libc.so.6". Throws Error(kIncompatible) if the file is no 64-bit ELF
/// file of this machine's byte order, Error(kNotFound) if it cannot be read.
std::vector<std::string> needed_libraries(const std::filesystem::path& library);

}  // namespace weft

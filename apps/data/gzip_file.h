#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace weft::apps {

/// The content of a file, which may be compressed by gzip or not: at most 1 GiB. Throws
/// Error(kNotFound) if it cannot be read, Error(kDataLoss) if it is damaged or cut off, and
/// Error(kInvalidArgument) if it holds more.
std::vector<std::byte> read_gzip_file(const std::filesystem::path& path);

}  // namespace weft::apps

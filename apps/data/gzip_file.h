#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace weft::apps {

/// Returns the content of a file of at most 1 GiB, compressed by gzip or not. Throws
/// Error(kNotFound) if the file cannot be read, Error(kDataLoss) if it is damaged or truncated,
/// Error(kInvalidArgument) if the content is larger.
std::vector<std::byte> read_gzip_file(const std::filesystem::path& path);

}  // namespace weft::apps

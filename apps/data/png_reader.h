#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "apps/data/picture.h"

namespace weft::apps {

/// Parses a PNG file (RFC 2083) with grey, colour or palette pixels of 1 to 16 bits. Keeps the
/// upper 8 bits of a sample and ignores transparency. `name` is used in errors. Throws
/// Error(kDataLoss) if the bytes are not a PNG file or are damaged or truncated. Throws
/// Error(kInvalidArgument) for unsupported content: interlaced files and more than 2^26 pixels.
Picture parse_png(std::span<const std::byte> bytes, const std::string& name);

/// Reads a PNG file. Throws as parse_png() does, and Error(kNotFound) if the file cannot be read.
Picture read_png(const std::filesystem::path& path);

}  // namespace weft::apps

#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "apps/data/picture.h"

namespace weft::apps {

/// The picture in the bytes of a PNG file (RFC 2083), of any kind of pixel: grey, colours or a
/// palette of 1 to 16 bits, of which the upper 8 are kept. Transparency is not looked at. `name` is
/// for errors. Throws Error(kDataLoss) if the bytes are not such a file, or are damaged or cut off,
/// and Error(kInvalidArgument) for what is not read here: interlaced files, and more than 2^26
/// pixels.
Picture parse_png(std::span<const std::byte> bytes, const std::string& name);

/// The same from a file. Throws Error(kNotFound) if it cannot be read.
Picture read_png(const std::filesystem::path& path);

}  // namespace weft::apps

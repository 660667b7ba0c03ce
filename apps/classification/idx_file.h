#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace weft::apps {

/// Array of bytes, the content of an IDX file of MNIST or Fashion-MNIST. A value.
struct IdxArray {
  std::vector<std::size_t> shape;  ///< {60000, 28, 28} for pictures, {60000} for labels.
  std::vector<std::uint8_t> values;
};

/// Parses an uncompressed IDX file: two zero bytes, the element type, the number of dimensions,
/// their sizes as big-endian u32, the elements. `name` is used in errors. Throws Error(kDataLoss)
/// if the bytes are not an IDX file or their number does not match the header. Throws
/// Error(kInvalidArgument) if the elements are not bytes.
IdxArray parse_idx(std::span<const std::byte> bytes, const std::string& name);

/// Reads an IDX file, compressed by gzip or not. Throws as parse_idx() does, and Error(kNotFound)
/// if the file cannot be read.
IdxArray read_idx(const std::filesystem::path& path);

}  // namespace weft::apps

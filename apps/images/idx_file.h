#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace weft::apps {

/// An array of bytes, as the files of MNIST and Fashion-MNIST hold it. A value.
struct IdxArray {
  std::vector<std::size_t> shape;  ///< {60000, 28, 28} of pictures, {60000} of labels.
  std::vector<std::uint8_t> values;
};

/// Reads the bytes of an uncompressed IDX file: two bytes 0, the type of its elements, the number
/// of dimensions, their sizes as big-endian u32, the elements. `name` is for errors. Throws
/// Error(kDataLoss) if the bytes are not such a file, or are more or fewer than it says, and
/// Error(kInvalidArgument) if its elements are not bytes.
IdxArray parse_idx(std::span<const std::byte> bytes, const std::string& name);

/// The same from a file, compressed by gzip or not. Throws Error(kNotFound) if it cannot be read.
IdxArray read_idx(const std::filesystem::path& path);

}  // namespace weft::apps

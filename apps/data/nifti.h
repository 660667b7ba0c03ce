#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace weft::apps {

/// Three-dimensional grid of numbers, the content of a NIfTI-1 file. A value.
struct Volume {
  std::array<std::int64_t, 3> size{};  ///< Voxels along x, y, z.
  std::array<float, 3> spacing{};      ///< Millimetres between voxels.
  std::vector<float> voxels;           ///< Values. x varies fastest.

  float at(std::int64_t x, std::int64_t y, std::int64_t z) const {
    return voxels[x + size[0] * (y + size[1] * z)];
  }
};

/// Parses an uncompressed NIfTI-1 file (single file, magic "n+1", either byte order). The header
/// has 348 bytes and the voxels begin at vox_offset. Voxels are scaled by scl_slope and scl_inter
/// unless the slope is 0. `name` is used in errors. Throws Error(kDataLoss) if the bytes are not
/// such a file or are truncated. Throws Error(kInvalidArgument) for unsupported content: more than
/// three dimensions, complex numbers, colours, more than 2^28 voxels.
Volume parse_nifti(std::span<const std::byte> bytes, const std::string& name);

/// Reads a NIfTI-1 file, compressed by gzip or not. Throws as parse_nifti() does, and
/// Error(kNotFound) if the file cannot be read.
Volume read_nifti(const std::filesystem::path& path);

}  // namespace weft::apps

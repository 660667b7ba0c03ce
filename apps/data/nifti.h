#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace weft::apps {

/// A volume of numbers on a grid, as a NIfTI-1 file holds it. A value.
struct Volume {
  std::array<std::int64_t, 3> size{};  ///< Voxels along x, y, z.
  std::array<float, 3> spacing{};      ///< Millimetres between them.
  std::vector<float> voxels;           ///< x runs fastest.

  float at(std::int64_t x, std::int64_t y, std::int64_t z) const {
    return voxels[x + size[0] * (y + size[1] * z)];
  }
};

/// Reads the bytes of an uncompressed NIfTI-1 file (one file, magic "n+1"; either byte order): a
/// header of 348 bytes, then from vox_offset on the voxels, which are scaled by scl_slope and
/// scl_inter if the slope is not 0. `name` is for errors. Throws Error(kDataLoss) if the bytes are
/// not such a file or end too soon, and Error(kInvalidArgument) for what it may hold but is not
/// read here: more than three dimensions, complex numbers, colours.
Volume parse_nifti(std::span<const std::byte> bytes, const std::string& name);

/// The same from a file, compressed by gzip or not. Throws Error(kNotFound) if it cannot be read.
Volume read_nifti(const std::filesystem::path& path);

}  // namespace weft::apps

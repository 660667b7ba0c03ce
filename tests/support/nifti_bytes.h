#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace weft::test {

/// Returns the bytes of a NIfTI-1 file with these voxels. `code` is NIfTI's number of type T.
template <typename T>
std::vector<std::byte> nifti_bytes(std::array<std::int16_t, 3> size, std::int16_t code,
                                   std::span<const T> voxels, float slope = 0,
                                   float intercept = 0) {
  std::vector<std::byte> bytes(352 + voxels.size_bytes());
  const auto put = [&](std::size_t offset, auto value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  };
  put(0, std::int32_t{348});
  put(40, std::int16_t{3});
  for (std::size_t d = 0; d < 3; ++d) {
    put(42 + 2 * d, size[d]);
    put(80 + 4 * d, 0.5f * (d + 1));
  }
  put(70, code);
  put(72, static_cast<std::int16_t>(8 * sizeof(T)));
  put(108, 352.0f);
  put(112, slope);
  put(116, intercept);
  std::memcpy(bytes.data() + 344, "n+1", 4);
  std::memcpy(bytes.data() + 352, voxels.data(), voxels.size_bytes());
  return bytes;
}

}  // namespace weft::test

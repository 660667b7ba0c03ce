#include "apps/data/nifti.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "apps/data/gzip_file.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

constexpr std::size_t kHeaderBytes = 348;
constexpr std::int64_t kMostVoxels = std::int64_t{1} << 28;

/// Reader of numbers at byte offsets, in the file's byte order.
class ByteFields {
 public:
  ByteFields(std::span<const std::byte> bytes, bool swapped) : bytes_(bytes), swapped_(swapped) {}

  template <typename T>
  T get(std::size_t offset) const {
    std::array<std::byte, sizeof(T)> raw;
    std::copy_n(bytes_.begin() + offset, sizeof(T), raw.begin());
    if (swapped_) std::ranges::reverse(raw);
    T value;
    std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool swapped_;
};

template <typename T>
void read_voxels(const ByteFields& fields, std::size_t offset, float slope, float intercept,
                 std::vector<float>& voxels) {
  for (std::size_t i = 0; i < voxels.size(); ++i) {
    const auto value = static_cast<float>(fields.get<T>(offset + i * sizeof(T)));
    voxels[i] = slope == 0 ? value : slope * value + intercept;
  }
}

/// Data type of voxels: its code in the header, its size, and its reader.
struct VoxelType {
  std::int16_t code;
  std::size_t bytes;
  void (*read)(const ByteFields&, std::size_t, float, float, std::vector<float>&);
};
constexpr VoxelType kVoxelTypes[] = {
    {2, 1, read_voxels<std::uint8_t>},    {4, 2, read_voxels<std::int16_t>},
    {8, 4, read_voxels<std::int32_t>},    {16, 4, read_voxels<float>},
    {64, 8, read_voxels<double>},         {256, 1, read_voxels<std::int8_t>},
    {512, 2, read_voxels<std::uint16_t>}, {768, 4, read_voxels<std::uint32_t>}};

}  // namespace

Volume parse_nifti(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kHeaderBytes)
    throw_error(ErrorCode::kDataLoss,
                "{} is not a NIfTI-1 file: it has {} bytes, its header alone {}", name,
                bytes.size(), kHeaderBytes);
  const bool swapped =
      ByteFields(bytes, false).get<std::int32_t>(0) != static_cast<std::int32_t>(kHeaderBytes);
  const ByteFields fields(bytes, swapped);
  if (fields.get<std::int32_t>(0) != static_cast<std::int32_t>(kHeaderBytes) ||
      std::memcmp(bytes.data() + 344, "n+1", 4) != 0) {
    throw_error(ErrorCode::kDataLoss,
                "{} is not a single-file NIfTI-1 file: its header lacks the magic \"n+1\"", name);
  }
  const auto dimensions = fields.get<std::int16_t>(40);
  Volume volume;
  std::int64_t count = 1;
  for (std::size_t d = 0; d < 7; ++d) {
    const std::int64_t extent =
        static_cast<std::int64_t>(d) < dimensions ? fields.get<std::int16_t>(42 + 2 * d) : 1;
    if (d >= 3 && extent != 1)
      throw_error(ErrorCode::kInvalidArgument,
                  "{} has more than three dimensions; save one volume of it", name);
    if (extent < 1)
      throw_error(ErrorCode::kDataLoss,
                  "{} is damaged: it says that it has {} voxels along dimension {}", name, extent,
                  d);
    if (d < 3) {
      volume.size[d] = extent;
      volume.spacing[d] = std::abs(fields.get<float>(76 + 4 * (d + 1)));
      count *= extent;
    }
  }
  if (count > kMostVoxels)
    throw_error(ErrorCode::kInvalidArgument,
                "{} has {} voxels, more than the {} that are read; save it at a lower resolution",
                name, count, kMostVoxels);
  const auto code = fields.get<std::int16_t>(70);
  const auto type = std::ranges::find(kVoxelTypes, code, &VoxelType::code);
  if (type == std::end(kVoxelTypes))
    throw_error(ErrorCode::kInvalidArgument,
                "{} has voxels of NIfTI's data type {}; whole and floating-point numbers of up to "
                "64 bits are read",
                name, code);
  const float offset = fields.get<float>(108);
  const std::size_t needed = count * type->bytes;
  if (!(offset >= kHeaderBytes) || offset > bytes.size() ||
      bytes.size() - static_cast<std::size_t>(offset) < needed) {
    throw_error(
        ErrorCode::kDataLoss,
        "{} is cut off: it has {} bytes, but {} x {} x {} voxels of {} bytes from byte {} on", name,
        bytes.size(), volume.size[0], volume.size[1], volume.size[2], type->bytes, offset);
  }
  volume.voxels.resize(count);
  type->read(fields, static_cast<std::size_t>(offset), fields.get<float>(112),
             fields.get<float>(116), volume.voxels);
  return volume;
}

Volume read_nifti(const std::filesystem::path& path) {
  return parse_nifti(read_gzip_file(path), path.string());
}

}  // namespace weft::apps

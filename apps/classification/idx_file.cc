#include "apps/classification/idx_file.h"

#include <limits>

#include "apps/data/gzip_file.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

constexpr std::uint8_t kUnsignedBytes = 8;  // code of the element type

}  // namespace

IdxArray parse_idx(std::span<const std::byte> bytes, const std::string& name) {
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint8_t>(bytes[i]); };
  if (bytes.size() < 4 || byte(0) != 0 || byte(1) != 0 || byte(3) == 0 ||
      bytes.size() < 4 + 4 * std::size_t{byte(3)})
    throw_error(ErrorCode::kDataLoss,
                "{} is not an IDX file: it does not begin as one does; download it again", name);
  if (byte(2) != kUnsignedBytes)
    throw_error(
        ErrorCode::kInvalidArgument,
        "{} has elements of the IDX type {:#04x}; only bytes, {:#04x}, can be read: convert it",
        name, byte(2), kUnsignedBytes);
  IdxArray array;
  std::size_t count = 1, at = 4;
  for (int d = 0; d < byte(3); ++d) {
    std::size_t size = 0;
    for (int i = 0; i < 4; ++i) size = size << 8 | byte(at++);
    array.shape.push_back(size);
    if (size != 0 && count > std::numeric_limits<std::size_t>::max() / size)
      throw_error(ErrorCode::kDataLoss,
                  "{} is damaged: the product of its sizes overflows; download it again", name);
    count *= size;
  }
  if (bytes.size() - at != count)
    throw_error(ErrorCode::kDataLoss,
                "{} is damaged or truncated: its header announces {} bytes, but {} follow; "
                "download it again",
                name, count, bytes.size() - at);
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data() + at);
  array.values.assign(first, first + count);
  return array;
}

IdxArray read_idx(const std::filesystem::path& path) {
  return parse_idx(read_gzip_file(path), path.string());
}

}  // namespace weft::apps

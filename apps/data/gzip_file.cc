#include "apps/data/gzip_file.h"

#include <zlib.h>

#include <memory>

#include "core/base/error.h"

namespace weft::apps {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;

}  // namespace

std::vector<std::byte> read_gzip_file(const std::filesystem::path& path) {
  const auto close = [](gzFile file) { gzclose(file); };
  const std::unique_ptr<gzFile_s, decltype(close)> file(gzopen(path.c_str(), "rb"), close);
  if (!file || std::filesystem::is_directory(path))
    throw_error(ErrorCode::kNotFound, "cannot read {}", path.string());
  std::vector<std::byte> bytes;
  std::vector<std::byte> piece(std::size_t{1} << 20);
  while (true) {
    const int count = gzread(file.get(), piece.data(), piece.size());
    if (count < 0)
      throw_error(ErrorCode::kDataLoss,
                  "{} is damaged: gzip cannot unpack it; copy or download it again", path.string());
    if (count == 0) break;
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + count);
    if (bytes.size() > kMostBytes)
      throw_error(
          ErrorCode::kInvalidArgument,
          "{} unpacks to more than 1 GiB, the most that is read; split it into several files",
          path.string());
  }
  int status = Z_OK;
  gzerror(file.get(), &status);
  if (status != Z_OK && status != Z_STREAM_END)
    throw_error(
        ErrorCode::kDataLoss,
        "{} is damaged or cut off: gzip cannot unpack it to its end; copy or download it again",
        path.string());
  return bytes;
}

}  // namespace weft::apps

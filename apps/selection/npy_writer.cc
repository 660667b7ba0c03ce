#include "apps/selection/npy_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <type_traits>
#include <utility>

#include "core/base/check.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace {

constexpr std::size_t kHeaderBytes = 128;  // a multiple of 64, as in NumPy's files

/// Returns a header of format 1. Its length is fixed, so that it can be written last, when the
/// number of rows is known.
std::string header_of(NpyFile::Elements elements, std::uint64_t rows, std::uint64_t columns) {
  std::string header("\x93NUMPY\x01\0", 8);
  constexpr std::size_t kLength = kHeaderBytes - 10;
  header += static_cast<char>(kLength & 0xff);
  header += static_cast<char>(kLength >> 8);
  header += fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},{}), }}",
                        elements == NpyFile::Elements::kFloats ? "<f4" : "<i8", rows,
                        columns == 1 ? "" : fmt::format(" {}", columns));
  header.resize(kHeaderBytes - 1, ' ');
  return header + '\n';
}

}  // namespace

NpyWriter::NpyWriter(std::filesystem::path path, std::uint64_t columns, NpyFile::Elements elements)
    : path_(std::move(path)), columns_(columns), elements_(elements), temporary_(path_) {
  static_assert(std::endian::native == std::endian::little);
  WEFT_CHECK(columns > 0, "rows of {} numbers", columns);
  temporary_ += ".new";
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0)
    throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", temporary_.string(),
                std::strerror(errno));
}

NpyWriter::~NpyWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void NpyWriter::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0)
      throw_error(errno == ENOSPC ? ErrorCode::kResourceExhausted : ErrorCode::kUnavailable,
                  "cannot write {}: {}", temporary_.string(), std::strerror(errno));
    bytes = bytes.subspan(put);
    offset += put;
  }
}

template <typename T>
void NpyWriter::append_values(std::span<const T> values) {
  constexpr bool kAreFloats = std::is_same_v<T, float>;
  WEFT_CHECK(fd_ >= 0 && values.size() % columns_ == 0 &&
                 kAreFloats == (elements_ == NpyFile::Elements::kFloats),
             "{} values in rows of {}", values.size(), columns_);
  write(kHeaderBytes + values_ * sizeof(T), std::as_bytes(values));
  values_ += values.size();
  digest_ = digest_with(digest_, std::as_bytes(values));
}
template void NpyWriter::append_values(std::span<const float> values);
template void NpyWriter::append_values(std::span<const std::int64_t> values);

void NpyWriter::commit() {
  WEFT_CHECK(fd_ >= 0, "{} is committed", path_.string());
  const std::string header = header_of(elements_, rows(), columns_);
  write(0, std::as_bytes(std::span(header)));
  if (::fsync(fd_) != 0)
    throw_error(ErrorCode::kResourceExhausted, "cannot flush {} to the disk: {}",
                temporary_.string(), std::strerror(errno));
  rename_file(temporary_, path_);
  ::close(std::exchange(fd_, -1));
  flush_to_disk(path_.parent_path());
}

std::string digest_with(const std::string& digest, std::span<const std::byte> block) {
  const std::string both = digest + sha256(block);
  return sha256(std::as_bytes(std::span(both)));
}

}  // namespace weft::apps

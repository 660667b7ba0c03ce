#include "core/spill/spill_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/check.h"
#include "core/base/crc32c.h"
#include "core/base/error.h"

namespace weft {
namespace {

constexpr std::string_view kMagic = "WEFTSPL1";
constexpr std::size_t kHeaderBytes = 16;
/// Blocks of one record are as long as that is; none is longer than this.
constexpr std::uint32_t kLargestBlock = std::uint32_t{1} << 30;

template <typename Number>
void put(std::byte* at, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i)
    at[i] = static_cast<std::byte>(number >> (8 * i) & 0xff);
}

template <typename Number>
Number get(const std::byte* at) {
  Number number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) number |= static_cast<Number>(at[i]) << (8 * i);
  return number;
}

/// `block`: with its header, of which the label is there.
std::uint32_t sum_of(std::span<const std::byte> block) { return crc32c(block.subspan(8)); }

[[noreturn]] void cannot_write(const std::filesystem::path& path, int reason) {
  const bool full = reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
  throw_error(full ? ErrorCode::kResourceExhausted : ErrorCode::kUnavailable,
              "cannot write {}: {}{}", path.string(), std::strerror(reason),
              full ? "; make room there, or give another folder" : "");
}

}  // namespace

SpillWriter::SpillWriter(std::filesystem::path path)
    : path_(std::move(path)), temporary_(path_), block_(kHeaderBytes) {
  temporary_ += ".new";
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) cannot_write(temporary_, errno);
  write(std::as_bytes(std::span(kMagic)));
}

SpillWriter::~SpillWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void SpillWriter::append(std::span<const std::byte> record, std::uint64_t label) {
  WEFT_CHECK(fd_ >= 0, "{} is committed", path_.string());
  WEFT_CHECK(record.size() <= kLargestBlock, "a record of {} bytes", record.size());
  if (record.empty()) return;
  const std::size_t held = block_.size() - kHeaderBytes;
  if (held > 0 && held + record.size() > kBlockBytes) write_block();
  if (block_.size() == kHeaderBytes) label_ = label;
  block_.insert(block_.end(), record.begin(), record.end());
  payload_bytes_ += record.size();
}

void SpillWriter::write_block() {
  put<std::uint32_t>(block_.data(), static_cast<std::uint32_t>(block_.size() - kHeaderBytes));
  put<std::uint64_t>(block_.data() + 8, label_);
  put<std::uint32_t>(block_.data() + 4, sum_of(block_));
  write(block_);
  if (block_.size() > kHeaderBytes) ++blocks_;
  block_.resize(kHeaderBytes);
}

void SpillWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot_write(temporary_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void SpillWriter::commit() {
  WEFT_CHECK(fd_ >= 0, "{} is committed", path_.string());
  if (block_.size() > kHeaderBytes) write_block();
  label_ = blocks_;
  write_block();
  if (::fsync(fd_) != 0) cannot_write(temporary_, errno);
  // Advice: what is not followed costs memory, not correctness.
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) cannot_write(path_, errno);
  ::close(std::exchange(fd_, -1));
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  const int entry = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool flushed = entry >= 0 && ::fsync(entry) == 0;
  const int reason = errno;
  if (entry >= 0) ::close(entry);
  if (!flushed) cannot_write(folder, reason);
}

SpillReader::SpillReader(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0)
    throw_error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                "cannot read {}: {}", path_.string(), std::strerror(errno));
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
  std::array<std::byte, kMagic.size()> magic{};
  try {
    read(magic, "its beginning is missing");
    if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0)
      damaged("it is no file of spilled records");
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

SpillReader::~SpillReader() { ::close(fd_); }

std::span<const std::byte> SpillReader::next() {
  if (ended_) return {};
  block_.resize(kHeaderBytes);
  read(block_, "its end is missing");
  const auto bytes = get<std::uint32_t>(block_.data());
  const auto sum = get<std::uint32_t>(block_.data() + 4);
  label_ = get<std::uint64_t>(block_.data() + 8);
  if (bytes > kLargestBlock) damaged("its length is no length");
  block_.resize(kHeaderBytes + bytes);
  read(std::span(block_).subspan(kHeaderBytes), "its end is missing");
  if (sum_of(block_) != sum) damaged("its checksum differs");
  if (bytes == 0) {
    if (label_ != blocks_) damaged("blocks before it are missing");
    ended_ = true;
    return {};
  }
  ++blocks_;
  return std::span(block_).subspan(kHeaderBytes);
}

void SpillReader::read(std::span<std::byte> bytes, const char* what) {
  const auto begin = static_cast<off_t>(offset_);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(fd_, bytes.data() + done, bytes.size() - done, begin + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw_error(ErrorCode::kUnavailable, "cannot read {}: {}", path_.string(),
                  std::strerror(errno));
    if (got == 0) damaged(what);
    done += static_cast<std::size_t>(got);
  }
  offset_ += done;
  ::posix_fadvise(fd_, begin, static_cast<off_t>(done), POSIX_FADV_DONTNEED);
}

void SpillReader::damaged(const char* what) const {
  throw_error(ErrorCode::kDataLoss, "{} is damaged in block {}, at byte {}: {}; make it anew",
              path_.string(), blocks_, offset_, what);
}

}  // namespace weft

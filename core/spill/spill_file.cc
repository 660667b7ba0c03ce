#include "core/spill/spill_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/check.h"
#include "core/base/crc32c.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"

namespace weft {
namespace {

constexpr std::string_view kMagic = "WEFTSPL1";
/// Bytes before a block: its payload size and its CRC32C.
constexpr std::size_t kHeaderBytes = 8;
constexpr std::size_t kLabelBytes = sizeof(std::uint64_t);
/// Limit on a block's payload. A block is larger than block_bytes if it holds a single larger
/// record.
constexpr std::uint32_t kLargestBlock = std::uint32_t{1} << 30;

[[noreturn]] void cannot_write(const std::filesystem::path& path, int reason) {
  const bool full = reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
  throw_error(full ? ErrorCode::kResourceExhausted : ErrorCode::kUnavailable,
              "cannot write {}: {}{}", path.string(), std::strerror(reason),
              full ? "; make room there, or give another folder" : "");
}

}  // namespace

SpillWriter::SpillWriter(std::filesystem::path path, std::size_t block_bytes)
    : path_(std::move(path)), block_bytes_(block_bytes), temporary_(temporary_name_of(path_)) {
  // Removes an existing link first, so that another user's link is not written through.
  ::unlink(temporary_.c_str());
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
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
  if (block_.size() > 0 && block_.size() + record.size() > kLabelBytes + block_bytes_) {
    write_block();
    ++blocks_;
  }
  if (block_.size() == 0) block_.write(label);
  block_.write_bytes(record);
  payload_bytes_ += record.size();
}

void SpillWriter::write_block() {
  ByteWriter header;
  header.write<std::uint32_t>(block_.size() - kLabelBytes);
  header.write(crc32c(block_.bytes()));
  write(header.bytes());
  write(block_.bytes());
  block_ = ByteWriter(kLabelBytes + block_bytes_);
}

void SpillWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot_write(temporary_, errno);
    bytes = bytes.subspan(written);
  }
}

void SpillWriter::commit(CommitDurability outlives) {
  WEFT_CHECK(fd_ >= 0, "{} is committed", path_.string());
  if (block_.size() > 0) {
    write_block();
    ++blocks_;
  }
  block_.write(blocks_);
  write_block();
  const bool flushes = outlives == CommitDurability::kCrash;
  if (flushes && ::fsync(fd_) != 0) cannot_write(temporary_, errno);
  // Only advice: if the kernel ignores it, memory is wasted.
  if (flushes) ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) cannot_write(path_, errno);
  ::close(std::exchange(fd_, -1));
  if (flushes) flush_to_disk(path_.has_parent_path() ? path_.parent_path() : ".");
}

SpillReader::SpillReader(std::filesystem::path path, PageCachePolicy pages)
    : file_(std::move(path)), pages_(pages) {
  std::array<std::byte, kMagic.size()> magic{};
  read(magic);
  if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0)
    throw_damaged("it is not a file of spilled records");
}

std::span<const std::byte> SpillReader::next() {
  if (ended_) return {};
  std::array<std::byte, kHeaderBytes> header{};
  read(header);
  ByteReader numbers(header);
  const auto bytes = numbers.read<std::uint32_t>();
  const auto sum = numbers.read<std::uint32_t>();
  if (bytes > kLargestBlock) throw_damaged("its length is invalid");
  block_.resize(kLabelBytes + bytes);
  read(block_);
  if (crc32c(block_) != sum) throw_damaged("its checksum differs");
  label_ = ByteReader(block_).read<std::uint64_t>();
  if (bytes == 0) {
    if (label_ != blocks_) throw_damaged("blocks before it are missing");
    ended_ = true;
    return {};
  }
  ++blocks_;
  return std::span(block_).subspan(kLabelBytes);
}

void SpillReader::read(std::span<std::byte> bytes) {
  if (!file_.read(offset_, bytes)) throw_damaged("its end is missing");
  if (pages_ == PageCachePolicy::kDrop) file_.drop(offset_, bytes.size());
  offset_ += bytes.size();
}

void write_spilled(const std::filesystem::path& path, std::span<const std::byte> content,
                   SpillWriter::CommitDurability outlives) {
  SpillWriter writer(path);
  while (!content.empty()) {
    const auto part = content.first(std::min(content.size(), SpillWriter::kBlockBytes));
    writer.append(part);
    content = content.subspan(part.size());
  }
  writer.commit(outlives);
}

std::vector<std::byte> read_spilled(const std::filesystem::path& path) {
  SpillReader reader(path, SpillReader::PageCachePolicy::kKeep);
  std::vector<std::byte> content;
  for (auto block = reader.next(); !block.empty(); block = reader.next())
    content.insert(content.end(), block.begin(), block.end());
  return content;
}

void SpillReader::throw_damaged(const char* what) const {
  throw_error(ErrorCode::kDataLoss,
              "{} is damaged in block {}, at byte {}: {}; delete it, so that it is written again",
              file_.path().string(), blocks_, offset_, what);
}

}  // namespace weft

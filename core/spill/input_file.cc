#include "core/spill/input_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace weft {

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  const off_t end = fd_ < 0 ? -1 : ::lseek(fd_, 0, SEEK_END);
  if (end < 0) {
    const int reason = errno;
    if (fd_ >= 0) ::close(fd_);
    throw_error(reason == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                "cannot read {}: {}", path_.string(), std::strerror(reason));
  }
  size_ = end;
}

InputFile::~InputFile() { ::close(fd_); }

bool InputFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw_error(ErrorCode::kUnavailable, "cannot read {}: {}", path_.string(),
                  std::strerror(errno));
    if (got == 0) return false;
    bytes = bytes.subspan(got);
    offset += got;
  }
  return true;
}

void InputFile::drop(std::uint64_t offset, std::uint64_t bytes) const {
  // Only advice: if the kernel ignores it, memory is wasted.
  ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

}  // namespace weft

#include "core/base/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <utility>

#include "core/base/error.h"

namespace weft {
namespace {

constexpr int kLockPollIntervalMs = 5;

[[noreturn]] void cannot_write(const std::filesystem::path& path) {
  throw_error(ErrorCode::kUnavailable, "cannot write {}: {}", path.string(), ::strerror(errno));
}

}  // namespace

std::optional<FileLock> FileLock::try_acquire(const std::filesystem::path& path, mode_t mode) {
  FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode));
  if (lock.descriptor_ < 0) cannot_write(path);
  if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP)
    throw_error(ErrorCode::kUnavailable,
                "cannot lock {}: its file system has no locks ({}); choose a folder on another "
                "file system, or start the lock service of this one (rpc.statd for NFS)",
                path.string(), ::strerror(errno));
  if (errno != EWOULDBLOCK) cannot_write(path);
  return std::nullopt;
}

std::optional<FileLock> FileLock::acquire(const std::filesystem::path& path,
                                          const std::function<bool()>& gives_up, mode_t mode) {
  for (;;) {
    if (auto lock = try_acquire(path, mode)) return lock;
    if (gives_up()) return std::nullopt;
    ::poll(nullptr, 0, kLockPollIntervalMs);  // polls, because flock() has no wait with a timeout
  }
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace weft

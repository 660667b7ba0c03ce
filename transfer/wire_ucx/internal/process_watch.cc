#include "transfer/wire_ucx/internal/process_watch.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace weft::transfer {

ProcessWatch::ProcessWatch(pid_t pid) : pid_(pid) {
  if (pid == ::getpid()) return;
  fd_ = ::syscall(SYS_pidfd_open, pid, 0);
  was_gone_ = fd_ < 0 && errno == ESRCH;
}

ProcessWatch::~ProcessWatch() {
  if (fd_ >= 0) ::close(fd_);
}

ProcessWatch::ProcessWatch(ProcessWatch&& other) noexcept
    : pid_(other.pid_), fd_(std::exchange(other.fd_, -1)), was_gone_(other.was_gone_) {}

ProcessWatch& ProcessWatch::operator=(ProcessWatch&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(fd_, other.fd_);
  std::swap(was_gone_, other.was_gone_);
  return *this;
}

}  // namespace weft::transfer

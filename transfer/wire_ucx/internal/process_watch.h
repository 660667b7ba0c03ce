#pragma once

#include <sys/types.h>

namespace weft::transfer {

/// Detects the end of another process of this machine, of any parent. Shared memory itself does not
/// report it.
///
/// Owned by one peer of a UcxWire. One thread at a time.
class ProcessWatch final {
 public:
  ProcessWatch() = default;
  /// Watches `pid`. Does nothing for this process.
  explicit ProcessWatch(pid_t pid);
  ~ProcessWatch();
  ProcessWatch(ProcessWatch&& other) noexcept;
  ProcessWatch& operator=(ProcessWatch&& other) noexcept;

  pid_t pid() const { return pid_; }
  /// Returns a descriptor that is readable (poll) once the process has ended. -1 if none is
  /// watched.
  int fd() const { return fd_; }
  /// Returns true if the process had already ended when the watch began.
  bool had_exited() const { return was_gone_; }

 private:
  pid_t pid_ = 0;
  int fd_ = -1;
  bool was_gone_ = false;
};

}  // namespace weft::transfer

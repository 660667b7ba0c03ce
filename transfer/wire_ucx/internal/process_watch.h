#pragma once

#include <sys/types.h>

namespace weft::transfer {

/// Tells when another process of this machine has ended, whoever is its parent. Shared memory
/// itself never tells.
///
/// Owner: one peer of a UcxWire. One thread at a time.
class ProcessWatch final {
 public:
  ProcessWatch() = default;
  /// Watches `pid`; this process itself needs no watching.
  explicit ProcessWatch(pid_t pid);
  ~ProcessWatch();
  ProcessWatch(ProcessWatch&& other) noexcept;
  ProcessWatch& operator=(ProcessWatch&& other) noexcept;

  pid_t pid() const { return pid_; }
  /// Readable (poll) once the process has ended; -1: nothing is watched.
  int fd() const { return fd_; }
  /// It had ended already when the watch began.
  bool was_gone() const { return was_gone_; }

 private:
  pid_t pid_ = 0;
  int fd_ = -1;
  bool was_gone_ = false;
};

}  // namespace weft::transfer

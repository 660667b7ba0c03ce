#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/thread.h"

namespace weft::actors {

/// A signal that came.
struct ReceivedSignal {
  int number = 0;
  pid_t sender = 0;  ///< 0: the kernel, as for Ctrl-C
  /// "SIGTERM from pid 4121 (bash)", "SIGINT".
  std::string describe() const;
};

/// Turns SIGINT, SIGTERM and SIGHUP into calls of a function on a thread of its own.
///
/// Make it first in main(): it blocks these signals in the calling thread, and threads that start
/// later inherit that.
class SignalWatch final {
 public:
  explicit SignalWatch(std::function<void(const ReceivedSignal&)> on_signal);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  int stop_fd_ = -1;
  int signal_fd_ = -1;
  Thread thread_;
  std::uint64_t simulated_ = 0;
};

}  // namespace weft::actors

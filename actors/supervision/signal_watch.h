#pragma once

#include <functional>
#include <thread>

namespace weft::actors {

/// Turns SIGINT, SIGTERM and SIGHUP into calls of a function on a thread of its own.
///
/// Make it first in main(): it blocks these signals in the calling thread, and threads that start later inherit that.
class SignalWatch final {
 public:
  explicit SignalWatch(std::function<void(int signal)> on_signal);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  const int stop_fd_;
  const int signal_fd_;
  std::thread thread_;
};

}  // namespace weft::actors

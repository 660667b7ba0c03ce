#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "core/base/check.h"

namespace weft {

/// Process that serves until its parent ends or this object is destroyed. It writes its port to a
/// pipe. Create it before the parent has threads.
class ServerProcess final {
 public:
  template <typename Serve>
  explicit ServerProcess(Serve serve) {
    int ends[2];
    WEFT_CHECK(::pipe(ends) == 0);
    pid_ = ::fork();
    WEFT_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(ends[0]);
      serve([&](std::uint16_t port) {
        WEFT_CHECK(::write(ends[1], &port, sizeof(port)) == sizeof(port));
      });
      ::_exit(0);
    }
    ::close(ends[1]);
    WEFT_CHECK(::read(ends[0], &port_, sizeof(port_)) == sizeof(port_), "the server did not start");
    ::close(ends[0]);
  }
  ~ServerProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  std::uint16_t port() const { return port_; }

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace weft

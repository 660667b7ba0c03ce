#include "actors/supervision/signal_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdint>

namespace weft::actors {
namespace {

int block_and_open() {
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&watched, signal);
  ::pthread_sigmask(SIG_BLOCK, &watched, nullptr);
  return ::signalfd(-1, &watched, SFD_CLOEXEC);
}

}  // namespace

SignalWatch::SignalWatch(std::function<void(int)> on_signal) : stop_fd_(::eventfd(0, EFD_CLOEXEC)), signal_fd_(block_and_open()) {
  thread_ = std::thread([this, on_signal = std::move(on_signal)] {
    pollfd polled[2] = {{stop_fd_, POLLIN, 0}, {signal_fd_, POLLIN, 0}};
    while (true) {
      ::poll(polled, 2, -1);
      if (polled[0].revents != 0) return;
      signalfd_siginfo received{};
      if (polled[1].revents != 0 && ::read(signal_fd_, &received, sizeof received) == sizeof received)
        on_signal(static_cast<int>(received.ssi_signo));
    }
  });
}

SignalWatch::~SignalWatch() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_fd_, &one, sizeof one);
  thread_.join();
  ::close(stop_fd_);
  ::close(signal_fd_);
}

}  // namespace weft::actors

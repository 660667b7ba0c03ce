#include "actors/supervision/signal_handler.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <fstream>

#include "actors/supervision/exit_report.h"
#include "actors/supervision/process_platform.h"

namespace weft::actors {
namespace {

int block_and_open() {
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, kCheckpointSignal, kParentShutsDown})
    ::sigaddset(&watched, signal);
  ::pthread_sigmask(SIG_BLOCK, &watched, nullptr);
  return ::signalfd(-1, &watched, SFD_CLOEXEC);
}

ReceivedSignal to_received(const signalfd_siginfo& info) {
  const auto sender = static_cast<pid_t>(info.ssi_pid);
  // Signals from the kernel, as from a terminal, have a positive code. Others without a sender come
  // from another PID namespace.
  const bool elsewhere = sender == 0 && info.ssi_code <= 0;
  return {static_cast<int>(info.ssi_signo), sender, elsewhere || sender == ::getppid()};
}

}  // namespace

bool ReceivedSignal::asks_to_end() const {
  return number == SIGINT || number == SIGTERM || number == SIGHUP;
}

std::string ReceivedSignal::describe() const {
  std::string name = signal_name(number);
  if (sender == 0) return name;
  std::string program;
  std::ifstream file(fmt::format("/proc/{}/comm", sender));
  std::getline(file, program);
  return program.empty() ? fmt::format("{} from pid {}", name, sender)
                         : fmt::format("{} from pid {} ({})", name, sender, program);
}

SignalHandler::SignalHandler(std::function<void(const ReceivedSignal&)> on_signal) {
  if (ProcessPlatform* platform = ProcessPlatform::simulated()) {
    simulated_ = platform->watch_signals(std::move(on_signal));
    return;
  }
  stop_fd_ = ::eventfd(0, EFD_CLOEXEC);
  signal_fd_ = block_and_open();
  const auto watch = [this, on_signal = std::move(on_signal)] {
    pollfd polled[2] = {{stop_fd_, POLLIN, 0}, {signal_fd_, POLLIN, 0}};
    while (true) {
      ::poll(polled, 2, -1);
      if (polled[0].revents != 0) return;
      signalfd_siginfo received{};
      if (polled[1].revents != 0 &&
          ::read(signal_fd_, &received, sizeof received) == sizeof received)
        on_signal(to_received(received));
    }
  };
  thread_ = Thread("signals", ThreadPriority::kControl, watch);
}

SignalHandler::~SignalHandler() {
  if (simulated_ != 0) {
    ProcessPlatform::simulated()->unwatch_signals(simulated_);
    return;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_fd_, &one, sizeof one);
  thread_.join();
  ::close(stop_fd_);
  ::close(signal_fd_);
}

EndRequestFilter::Kind EndRequestFilter::add(const ReceivedSignal& signal, TimePoint now) {
  if (!first_) {
    first_ = now;
    return Kind::kFirst;
  }
  const bool echo =
      now - *first_ < kEchoWindow || (parent_ == Parent::kKills && signal.from_parent);
  return echo ? Kind::kEcho : Kind::kSecond;
}

void kill_self(int signal) {
  if (ProcessPlatform* platform = ProcessPlatform::simulated()) platform->kill_self(signal);
  ::signal(signal, SIG_DFL);
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::kill(::getpid(), signal);
  ::_exit(128 + signal);
}

}  // namespace weft::actors

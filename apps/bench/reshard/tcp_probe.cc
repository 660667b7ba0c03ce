#include "apps/bench/reshard/tcp_probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <optional>
#include <thread>

#include "core/base/error.h"

namespace weft::apps {
namespace {

constexpr std::size_t kBlock = 256 * 1024;
constexpr auto kConnectWithin = std::chrono::seconds(5);

sockaddr_in socket_address(const actors::Address& address) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(address.port);
  if (::inet_pton(AF_INET, address.host.c_str(), &result.sin_addr) != 1)
    throw_error(ErrorCode::kInvalidArgument, "'{}' is not an IPv4 address", address.host);
  return result;
}

[[noreturn]] void fail(const std::string& what) {
  throw_error(ErrorCode::kUnavailable, "{}: {}", what, ::strerror(errno));
}

int milliseconds_until(TimePoint end) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(end - SteadyClock().now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

/// Returns false, with errno, if `end` passes or polling fails.
bool ready(int socket, short events, TimePoint end) {
  pollfd polled{socket, events, 0};
  const int count = ::poll(&polled, 1, milliseconds_until(end));
  if (count == 0) errno = ETIMEDOUT;
  return count == 1;
}

/// Socket that closes in its destructor.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  operator int() const { return fd_; }

 private:
  const int fd_;
};

void send_until(const actors::Address& from, const actors::Address& to, TimePoint start,
                TimePoint end) {
  const Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Binds to the interface's own address, so that traffic leaves through it.
  const sockaddr_in own = socket_address({from.host, 0}), peer = socket_address(to);
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0)
    fail("cannot bind to " + from.host);
  const bool connecting =
      ::connect(socket, reinterpret_cast<const sockaddr*>(&peer), sizeof peer) == 0 ||
      errno == EINPROGRESS;
  int error = 0;
  socklen_t size = sizeof error;
  if (!connecting || !ready(socket, POLLOUT, SteadyClock().now() + kConnectWithin) ||
      ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    errno = error != 0 ? error : errno;
    fail("the bandwidth probe cannot connect to " + to_string(to));
  }
  ::poll(nullptr, 0, milliseconds_until(start));
  static const std::array<char, kBlock> zeros{};
  while (SteadyClock().now() < end) {
    if (!ready(socket, POLLOUT, end)) break;
    // The receiver closes the connection when it is done.
    if (::send(socket, zeros.data(), zeros.size(), MSG_NOSIGNAL) < 0 && errno != EAGAIN) break;
  }
}

double receive_until(int listener, TimePoint from, TimePoint end) {
  if (!ready(listener, POLLIN, end)) fail("no peer connected to the bandwidth probe");
  const Socket socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket < 0) fail("the bandwidth probe cannot accept a connection");
  std::vector<char> buffer(kBlock);
  std::uint64_t bytes = 0;
  while (ready(socket, POLLIN, end)) {
    const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) break;
    if (got > 0 && SteadyClock().now() >= from) bytes += got;
  }
  return bytes / std::chrono::duration<double>(end - from).count();
}

}  // namespace

TcpProbe::TcpProbe(const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    listeners_.push_back(socket);
    sockaddr_in own = socket_address({address, 0});
    socklen_t size = sizeof own;
    if (::bind(socket, reinterpret_cast<const sockaddr*>(&own), size) != 0 ||
        ::listen(socket, 4) != 0 ||
        ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0)
      fail("cannot listen on " + address);
    listening_.push_back({address, ntohs(own.sin_port)});
  }
}

TcpProbe::~TcpProbe() {
  for (const int socket : listeners_) ::close(socket);
}

std::vector<double> TcpProbe::run(const std::vector<actors::Address>& targets, TimePoint start,
                                  Nanoseconds time) {
  const TimePoint end = start + time;
  std::vector<double> rates(listeners_.size());
  std::mutex mutex;
  std::optional<Error> failure;
  const auto guarded = [&](const auto& work) {
    try {
      work();
    } catch (...) {
      std::lock_guard lock(mutex);
      failure = current_error();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < targets.size(); ++i)
      threads.emplace_back(
          [&, i] { guarded([&] { send_until(listening_.at(i), targets[i], start, end); }); });
    for (std::size_t i = 0; i < listeners_.size(); ++i)
      threads.emplace_back([&, i] {
        guarded([&] { rates[i] = receive_until(listeners_[i], start + time / 4, end); });
      });
  }
  if (failure) throw *failure;
  return rates;
}

}  // namespace weft::apps

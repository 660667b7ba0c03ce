#include "actors/net/connection_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace weft::actors {
namespace {

/// Socket address of an address in digits.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  SocketAddress(const std::string& host, std::uint16_t port) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return;
    std::memcpy(&storage, found->ai_addr, found->ai_addrlen);
    size = found->ai_addrlen;
    ::freeaddrinfo(found);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int make_socket() const {
    return size == 0 ? -1
                     : ::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  }
};

}  // namespace

ProbeListener::ProbeListener(const std::string& address) {
  const SocketAddress own(address, 0);
  fd_ = own.make_socket();
  SocketAddress bound = own;
  socklen_t size = sizeof bound.storage;
  char port[NI_MAXSERV];
  if (fd_ < 0 || ::bind(fd_, own.get(), own.size) != 0 || ::listen(fd_, 16) != 0 ||
      ::getsockname(fd_, reinterpret_cast<sockaddr*>(&bound.storage), &size) != 0 ||
      ::getnameinfo(bound.get(), size, nullptr, 0, port, sizeof port, NI_NUMERICSERV) != 0) {
    const int reason = errno;
    if (fd_ >= 0) ::close(fd_);
    throw_error(ErrorCode::kUnavailable, "cannot listen at {}: {}", address, std::strerror(reason));
  }
  port_ = static_cast<std::uint16_t>(std::stoi(port));
}

ProbeListener::ProbeListener(ProbeListener&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), port_(other.port_) {}

ProbeListener::~ProbeListener() {
  if (fd_ >= 0) ::close(fd_);
}

ConnectionProbes::ConnectionProbes(const std::vector<ConnectionProbe>& trials)
    : reached_(trials.size(), 0) {
  for (const ConnectionProbe& trial : trials) {
    const SocketAddress from(trial.from, 0), to(trial.to.host, trial.to.port);
    int fd = from.make_socket();
    const bool started = fd >= 0 && to.size != 0 && ::bind(fd, from.get(), from.size) == 0 &&
                         (::connect(fd, to.get(), to.size) == 0 || errno == EINPROGRESS);
    if (fd >= 0 && !started) {
      ::close(fd);
      fd = -1;
    }
    fds_.push_back(fd);
  }
}

ConnectionProbes::~ConnectionProbes() {
  for (const int fd : fds_)
    if (fd >= 0) ::close(fd);
}

bool ConnectionProbes::poll_once() {
  for (std::size_t i = 0; i < fds_.size(); ++i) {
    pollfd ready{fds_[i], POLLOUT, 0};
    if (fds_[i] < 0 || ::poll(&ready, 1, 0) <= 0) continue;
    int error = 0;
    socklen_t size = sizeof error;
    const bool known = ::getsockopt(fds_[i], SOL_SOCKET, SO_ERROR, &error, &size) == 0;
    reached_[i] = known && error == 0 ? 1 : 0;
    ::close(std::exchange(fds_[i], -1));
  }
  return std::ranges::all_of(fds_, [](int fd) { return fd < 0; });
}

}  // namespace weft::actors

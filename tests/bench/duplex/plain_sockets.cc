#include "tests/bench/duplex/plain_sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::bench {
namespace {

[[noreturn]] void fail(const char* what) {
  throw_error(ErrorCode::kUnavailable, "{}: {}", what, std::strerror(errno));
}

sockaddr_in socket_address(const std::string& host) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) fail("not an IPv4 address");
  return address;
}

/// Returns a connection between the two hosts. `listens` is true on one side.
int join(bool listens, const std::string& host, const Channel& channel) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = socket_address(host);
  socklen_t size = sizeof(address);
  int connection = socket;
  if (listens) {
    if (::bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(socket, 1) != 0 ||
        ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      fail("cannot listen");
    channel.send(std::as_bytes(std::span(&address, 1)));
    connection = ::accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
    ::close(socket);
  } else {
    const std::vector<std::byte> told = channel.receive();
    std::memcpy(&address, told.data(), sizeof(address));
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), size) != 0) fail("cannot connect");
  }
  if (connection < 0) fail("cannot accept");
  const int one = 1;
  ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  return connection;
}

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

PlainSockets::PlainSockets(std::uint32_t self, const std::vector<std::string>& addresses,
                           const Channel& channel, Connections connections) {
  // The receiver listens.
  const int first = join(self == 1, addresses.at(1), channel);
  const int second =
      connections == Connections::kOne ? first : join(self == 0, addresses.at(0), channel);
  out_ = self == 0 ? first : second;
  in_ = self == 0 ? second : first;
}

PlainSockets::~PlainSockets() {
  ::close(out_);
  if (in_ != out_) ::close(in_);
}

Times PlainSockets::run(const Stream& out, const Stream& in, std::int64_t start) {
  Times times;
  WEFT_CHECK(out_ != in_ || (out.in_flight > 1 && in.in_flight > 1));
  std::this_thread::sleep_until(
      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(start)));
  {
    std::jthread writer([&] {
      const std::vector<std::byte> tensor(out.bytes);
      std::array<std::byte, 1> answer;
      for (std::uint32_t i = 0; i < out.count; ++i) {
        times.started.push_back(now());
        write_all(out_, tensor);
        if (out.in_flight == 1) read_all(out_, answer);
      }
    });
    std::vector<std::byte> tensor(in.bytes);
    for (std::uint32_t i = 0; i < in.count; ++i) {
      read_all(in_, tensor);
      times.ended.push_back(now());
      if (in.in_flight == 1) write_all(in_, std::array<std::byte, 1>{});
    }
  }
  return times;
}

}  // namespace weft::bench

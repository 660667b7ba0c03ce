#include "transfer/wire_ucx/internal/tcp_bytes.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace weft::transfer {
namespace {

/// Descriptor that the destructor closes.
struct Descriptor {
  int fd = -1;
  ~Descriptor() { ::close(fd); }
};

TEST(TcpBytes, AreThoseThatTheSocketsOfAnEpollDescriptorHaveReceivedAlsoOfOneInside) {
  const Descriptor listener{::socket(AF_INET, SOCK_STREAM, 0)},
      sender{::socket(AF_INET, SOCK_STREAM, 0)};
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener.fd, generic, size), 0);
  ASSERT_EQ(::listen(listener.fd, 1), 0);
  ASSERT_EQ(::getsockname(listener.fd, generic, &size), 0);
  ASSERT_EQ(::connect(sender.fd, generic, size), 0);
  const Descriptor receiver{::accept(listener.fd, nullptr, nullptr)};

  const Descriptor inner{::epoll_create1(0)}, outer{::epoll_create1(0)};
  epoll_event event = {};
  ASSERT_EQ(::epoll_ctl(inner.fd, EPOLL_CTL_ADD, receiver.fd, &event), 0);
  ASSERT_EQ(::epoll_ctl(outer.fd, EPOLL_CTL_ADD, inner.fd, &event), 0);
  EXPECT_EQ(tcp_bytes_received(outer.fd), 0u);

  std::array<char, 1000> bytes{};
  ASSERT_EQ(::send(sender.fd, bytes.data(), bytes.size(), 0), 1000);
  ASSERT_EQ(::recv(receiver.fd, bytes.data(), bytes.size(), MSG_WAITALL), 1000);
  EXPECT_EQ(tcp_bytes_received(outer.fd), 1000u);
  EXPECT_EQ(tcp_bytes_received(inner.fd), 1000u);
  EXPECT_EQ(tcp_bytes_received(receiver.fd), 0u) << "is no epoll descriptor";
}

}  // namespace
}  // namespace weft::transfer

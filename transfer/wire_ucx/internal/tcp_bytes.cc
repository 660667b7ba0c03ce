#include "transfer/wire_ucx/internal/tcp_bytes.h"

#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>

namespace weft::transfer {
namespace {

std::optional<std::uint64_t> bytes_of_socket(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received)) return 0;
  return info.tcpi_bytes_received;
}

/// Sums the bytes of all watched sockets, down to `depth` levels of nested epoll descriptors.
std::uint64_t bytes_of_epoll(int fd, int depth) {
  std::ifstream entries(fmt::format("/proc/self/fdinfo/{}", fd));
  std::uint64_t bytes = 0;
  for (std::string line; std::getline(entries, line);) {
    int watched = 0;
    if (std::sscanf(line.c_str(), "tfd: %d", &watched) != 1) continue;
    if (const auto of_socket = bytes_of_socket(watched)) bytes += *of_socket;
    else if (depth > 0) bytes += bytes_of_epoll(watched, depth - 1);
  }
  return bytes;
}

}  // namespace

std::uint64_t tcp_bytes_received(int epoll_fd) { return bytes_of_epoll(epoll_fd, 2); }

}  // namespace weft::transfer

#pragma once

#include <cstdint>

namespace weft::transfer {

/// Returns the payload bytes that the kernel has received on all TCP sockets that an epoll
/// descriptor watches, directly or through nested epoll descriptors (each UCX transport has its
/// own). UCX itself reports only complete messages. Returns 0 if the kernel does not provide
/// /proc/self/fdinfo. Any thread: a socket that is closed meanwhile is skipped.
std::uint64_t tcp_bytes_received(int epoll_fd);

}  // namespace weft::transfer

#pragma once

#include <cstdint>

namespace weft::transfer {

/// Payload bytes that the kernel has received on all TCP sockets which an epoll descriptor watches,
/// also through other epoll descriptors inside it: UCX's transports each have one of their own. UCX
/// itself tells only of whole messages. 0 where the kernel does not say (/proc/self/fdinfo). Any
/// thread: a socket that is closed meanwhile is left out.
std::uint64_t tcp_bytes_received(int epoll_fd);

}  // namespace weft::transfer

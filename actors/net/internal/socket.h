#pragma once

#include "actors/net/connection.h"

#include <asio/ip/tcp.hpp>

namespace weft::actors {

/// The Asio side of a Connection, seen by actors/net alone.
struct Connection::Impl {
  asio::ip::tcp::socket socket;
};

/// A connected socket as a Connection: no Nagle delay, non-blocking.
std::shared_ptr<Connection> make_connection(EventLoop& loop, asio::ip::tcp::socket socket);

}  // namespace weft::actors

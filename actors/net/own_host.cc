#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "actors/net/network.h"

namespace weft::actors {

std::string local_address_towards(const Address& peer) {
  if (ControlNetwork* network = ControlNetwork::simulated()) return network->own_host();
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(localhost_to_ipv4(peer.host).c_str(), std::to_string(peer.port).c_str(), &hints,
                    &found) != 0)
    return "127.0.0.1";
  std::string host = "127.0.0.1";
  const int socket = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  char text[NI_MAXHOST];
  if (socket >= 0 && ::connect(socket, found->ai_addr, found->ai_addrlen) == 0 &&
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
      ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) == 0)
    host = text;
  if (socket >= 0) ::close(socket);
  ::freeaddrinfo(found);
  return host;
}

}  // namespace weft::actors

#include "transfer/execute/peers.h"

#include <fmt/format.h>

namespace weft::transfer {

void Peers::add(DeviceId peer, HostId host) {
  hosts_[peer] = host;
  lost_.erase(peer);
  cut_.erase(peer);
}

void Peers::set_path(DeviceId peer, Path path) {
  if (path == Path::kSharedMemory) neighbours_.insert(peer);
  if (path == Path::kTcp) over_network_.insert(peer);
}

const Error* Peers::loss_error(DeviceId peer) const {
  const auto lost = lost_.find(peer);
  return lost == lost_.end() ? nullptr : &lost->second;
}

std::string Peers::name_of(DeviceId peer) const {
  const auto host = hosts_.find(peer);
  return host == hosts_.end() ? fmt::format("device {}", peer)
                              : fmt::format("device {} (host {})", peer, host->second);
}

}  // namespace weft::transfer

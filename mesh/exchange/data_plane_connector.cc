#include "mesh/exchange/data_plane_connector.h"

#include <utility>

namespace weft::mesh {

void DataPlaneConnector::connect() const {
  const Secret secret = Secret::random();  // valid for this epoch only
  std::map<std::string, std::uint32_t> host_ids;
  std::vector<transfer::PeerAddress> peers;
  for (const ConnectedMesh& mesh : meshes_) {
    std::vector<transfer::DataPlaneSetup> setups;
    for (std::size_t i = 0; i < mesh.ranks; ++i) {
      const std::size_t rank = peers.size() + i;
      const std::uint32_t host =
          host_ids.emplace(hosts_[rank], static_cast<std::uint32_t>(host_ids.size())).first->second;
      setups.push_back({transfer::DeviceId(static_cast<std::uint32_t>(rank)),
                        transfer::HostId(host), epoch_, interfaces_.of(hosts_[rank]),
                        secret.bytes()});
    }
    std::vector<std::vector<std::byte>> addresses = mesh.open(setups);
    for (std::size_t i = 0; i < addresses.size(); ++i)
      peers.push_back({setups[i].device, setups[i].host, std::move(addresses[i])});
  }
  for (const ConnectedMesh& mesh : meshes_) mesh.connect(peers);
}

}  // namespace weft::mesh

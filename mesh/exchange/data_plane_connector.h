#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/agent/agent_messages.h"
#include "actors/system/system.h"
#include "core/base/secret.h"
#include "core/network/data_interfaces.h"
#include "transfer/wires/data_plane.h"

namespace weft::mesh {

/// Connector of the actors of several meshes on the data plane, each with all others. Ranks count
/// over all meshes in the order of add().
///   DataPlaneConnector ranks(epoch, cluster.data_interfaces(hosts));
///   ranks.add<&Owner::open, &Owner::connect>(owners.ref(), cluster.meshes().places_of(key));
///   ranks.connect();
///
/// Actors forward both calls to their DataPlaneEndpoint. After a replacement, connect again with a
/// new DataPlaneConnector and a larger epoch. Used in a driver; one thread.
class DataPlaneConnector final {
 public:
  /// `interfaces`: of all ranks' hosts; see actors::Cluster::data_interfaces().
  DataPlaneConnector(std::uint64_t epoch, DataInterfaces interfaces)
      : epoch_(epoch), interfaces_(std::move(interfaces)) {}

  /// Adds a mesh. `places`: where the head placed its ranks.
  template <auto Open, auto Connect, typename Actor>
  void add(const actors::MeshRef<Actor>& mesh, std::span<const actors::HostDevice> places) {
    for (const actors::HostDevice& place : places) hosts_.push_back(place.host);
    meshes_.push_back({places.size(),
                       [mesh](const std::vector<transfer::DataPlaneSetup>& setups) {
                         return mesh.template scatter<Open>(setups).get();
                       },
                       [mesh](const std::vector<transfer::PeerAddress>& peers) {
                         mesh.template call<Connect>(peers).get();
                       }});
  }
  /// Opens and connects all ranks. Throws what the actors' calls throw.
  void connect() const;
  std::size_t num_ranks() const { return hosts_.size(); }

 private:
  struct ConnectedMesh {
    std::size_t ranks;
    std::function<std::vector<std::vector<std::byte>>(const std::vector<transfer::DataPlaneSetup>&)>
        open;
    std::function<void(const std::vector<transfer::PeerAddress>&)> connect;
  };
  const std::uint64_t epoch_;
  const DataInterfaces interfaces_;
  std::vector<ConnectedMesh> meshes_;
  std::vector<std::string> hosts_;  ///< Host names by rank.
};

}  // namespace weft::mesh

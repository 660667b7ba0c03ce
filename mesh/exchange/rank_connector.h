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

/// Lets the actors of several meshes reach each other on the data plane: ranks 0, 1, ... over all
/// meshes in the order in which they were added, so that each can open exchanges with all others.
///
///   RankConnector ranks(epoch, cluster.data_interfaces(hosts));
///   ranks.add<&Owner::open, &Owner::connect>(owners.ref(), cluster.places_of(key));
///   ranks.connect();
///
/// The actors hand both calls to their ExchangePort. After a replacement: the same again, with a
/// larger epoch and a connector of its own. In a driver; one thread.
class RankConnector final {
 public:
  /// `interfaces`: of the hosts that are added; see actors::Cluster::data_interfaces().
  RankConnector(std::uint64_t epoch, DataInterfaces interfaces)
      : epoch_(epoch), interfaces_(std::move(interfaces)) {}

  /// `places`: where the head has put the ranks of the mesh.
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
  /// Throws what the calls throw.
  void connect() const;
  std::size_t num_ranks() const { return hosts_.size(); }

 private:
  struct Mesh {
    std::size_t ranks;
    std::function<std::vector<std::vector<std::byte>>(const std::vector<transfer::DataPlaneSetup>&)>
        open;
    std::function<void(const std::vector<transfer::PeerAddress>&)> connect;
  };
  const std::uint64_t epoch_;
  const DataInterfaces interfaces_;
  std::vector<Mesh> meshes_;
  std::vector<std::string> hosts_;  ///< By rank.
};

}  // namespace weft::mesh

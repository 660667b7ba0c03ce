#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/cluster_messages.h"
#include "actors/system/system.h"
#include "core/network/data_interfaces.h"
#include "core/network/network_choice.h"

namespace weft::actors {

/// Finder of the interfaces of a run's hosts; see core/network/network_choice.h. Asks the agents
/// for their addresses, and lets them try connections over networks that could be faster: each pair
/// once in the life of this object. Owned by a driver's Cluster; one thread at a time.
class DataNetworks final {
 public:
  /// Takes the interfaces that the run file names, by host.
  DataNetworks(System& system, std::map<std::string, std::string> chosen)
      : system_(system), chosen_(std::move(chosen)) {}

  /// Returns the interfaces. A host whose agent does not answer gets none: its processes are about
  /// to fail.
  DataInterfaces interfaces_of(const std::set<std::string>& hosts, const ClusterStatus& status);

 private:
  struct Machine;
  std::vector<Machine> machines_of(const std::set<std::string>& hosts,
                                   const ClusterStatus& status) const;
  void try_connections(const std::vector<Machine>& machines,
                       const std::vector<NetworkTrial>& trials);

  /// Addresses of two machines, whatever their positions in a list.
  using Pair = std::pair<std::string, std::string>;
  System& system_;
  const std::map<std::string, std::string> chosen_;
  std::map<Pair, bool> tried_;  ///< Results of the tried connections.
};

}  // namespace weft::actors

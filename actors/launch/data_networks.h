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

/// Finds the interfaces of a run's hosts; see core/network/network_choice.h. Asks the agents for
/// their addresses, and has them try connections over networks that could be faster: each pair
/// once in the life of this object. Owned by a driver's Cluster; one thread at a time.
class DataNetworks final {
 public:
  /// `chosen`: interface that the run file names, by host.
  DataNetworks(System& system, std::map<std::string, std::string> chosen)
      : system_(system), chosen_(std::move(chosen)) {}

  /// A host whose agent does not answer has no interface here: its processes are about to fail.
  DataInterfaces interfaces_of(const std::set<std::string>& hosts, const ClusterStatus& status);

 private:
  struct Machine;
  std::vector<Machine> machines_of(const std::set<std::string>& hosts,
                                   const ClusterStatus& status) const;
  void try_connections(const std::vector<Machine>& machines,
                       const std::vector<NetworkTrial>& trials);

  /// Trial between two machines, whatever their positions in a list.
  using Pair = std::pair<std::string, std::string>;
  System& system_;
  const std::map<std::string, std::string> chosen_;
  std::map<Pair, bool> tried_;  ///< By both addresses: whether a connection has succeeded.
};

}  // namespace weft::actors

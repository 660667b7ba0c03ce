#pragma once

#include <compare>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "core/network/interface_address.h"

namespace weft {

/// Networks of one host of a run, the input of the choice of a data network.
struct HostNetworks {
  std::string host;
  /// Address from which it reached the head; its peers use it for control messages.
  std::string address;
  std::string interface;  ///< Interface chosen in the run file; empty if none.
  std::vector<InterfaceAddress> addresses;
};

/// Connection to be tested before a network is used. Hosts are positions in the list of hosts.
struct NetworkTrial {
  std::size_t from = 0, to = 0;
  std::string from_address, to_address;

  friend auto operator<=>(const NetworkTrial&, const NetworkTrial&) = default;
};

/// Functions that choose the interfaces for the tensors of a run.
///
/// An interface's speed and name are no evidence: bridges of containers and virtual machines report
/// 10 Gbit/s, have the same address on every machine, and may not be connected. The chosen
/// interface is
///
/// 1. the one named in the run file (cluster.hosts: {interface: eth1}); 2. if the file names none
/// for any host: the interface of the fastest network on which each host has
///     an address that no other host has, that is faster than 3. on all hosts, and over which all
///     trials succeeded;
/// 3. the interface by which the host reached the head.
///
/// Networks of unknown speed never count as faster.
///
/// required_trials() returns the connections to test for 2. (none if no network could be faster).
/// choose_networks() returns the interface of each host, given the trials that succeeded. An
/// interface is empty if none of the host's interfaces has its address.
std::vector<NetworkTrial> required_trials(const std::vector<HostNetworks>& hosts);
std::vector<std::string> choose_networks(const std::vector<HostNetworks>& hosts,
                                         const std::set<NetworkTrial>& succeeded);

}  // namespace weft

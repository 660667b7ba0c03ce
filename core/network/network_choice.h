#pragma once

#include <compare>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "core/network/interface_address.h"

namespace weft {

/// Host of a run, as the choice of its data network sees it. A value.
struct HostNetworks {
  std::string host;
  std::string address;    ///< By which it has reached the head, and others reach it for control.
  std::string interface;  ///< That the run file chooses; empty: none.
  std::vector<InterfaceAddress> addresses;
};

/// Connection to try before a network is used. Hosts by their position in the list.
struct NetworkTrial {
  std::size_t from = 0, to = 0;
  std::string from_address, to_address;

  friend auto operator<=>(const NetworkTrial&, const NetworkTrial&) = default;
};

/// Interfaces for the tensors of a run.
///
/// Speed and name of an interface prove nothing: bridges of containers and virtual machines state
/// 10 Gbit/s, have the same address on every machine, and lead nowhere. So the interface is
///
///  1. the one that the run file names (cluster.hosts: {interface: eth1});
///  2. if it names none for any host: that of the fastest network that is faster than 3. on all
///     hosts, in which each host has one address that no other host has, and over which all trials
///     have succeeded;
///  3. the one by which the host has reached the head.
///
/// Networks whose speed is unknown are never taken for faster ones.
///
/// trials_of() gives the connections to try for 2. (none where no network could be faster), and
/// choose_networks() the interface of each host, given the trials that have succeeded. An interface
/// is empty where a host's own address is on none of its interfaces.
std::vector<NetworkTrial> trials_of(const std::vector<HostNetworks>& hosts);
std::vector<std::string> choose_networks(const std::vector<HostNetworks>& hosts,
                                         const std::set<NetworkTrial>& succeeded);

}  // namespace weft

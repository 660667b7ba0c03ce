#include "core/network/network_choice.h"

#include <algorithm>
#include <map>
#include <optional>

namespace weft {
namespace {

/// Number of following hosts in the list to which each host is tested. Detects a fault of one host
/// at a cost linear in the number of hosts.
constexpr std::size_t kTriedNeighbours = 4;

/// Network that all hosts share, with the address of each host.
struct SharedNetwork {
  std::vector<InterfaceAddress> addresses;
  std::int64_t speed_mbit = -1;  ///< Speed of the slowest interface; -1 if one is unknown.
};

std::int64_t slowest(const std::vector<InterfaceAddress>& addresses) {
  std::int64_t speed = -1;
  for (const InterfaceAddress& address : addresses) {
    if (address.speed_mbit <= 0) return -1;
    speed = speed < 0 ? address.speed_mbit : std::min(speed, address.speed_mbit);
  }
  return speed;
}

/// Returns the speed of the network that reaches the head, or -1 if it is unknown.
std::int64_t control_speed(const std::vector<HostNetworks>& hosts) {
  std::vector<InterfaceAddress> own;
  for (const HostNetworks& host : hosts) {
    const auto found = std::ranges::find(host.addresses, host.address, &InterfaceAddress::address);
    if (found == host.addresses.end()) return -1;
    own.push_back(*found);
  }
  return slowest(own);
}

/// Returns the shared networks faster than the control network, the fastest first.
std::vector<SharedNetwork> faster_networks(const std::vector<HostNetworks>& hosts) {
  const std::int64_t control = control_speed(hosts);
  const bool chosen =
      std::ranges::any_of(hosts, [](const HostNetworks& host) { return !host.interface.empty(); });
  if (hosts.size() < 2 || control < 0 || chosen) return {};
  std::map<std::string, std::size_t> hosts_with;
  for (const HostNetworks& host : hosts) {
    std::set<std::string> own;
    for (const InterfaceAddress& address : host.addresses) own.insert(address.address);
    for (const std::string& address : own) ++hosts_with[address];
  }
  std::vector<SharedNetwork> faster;
  for (const InterfaceAddress& first : hosts.front().addresses) {
    SharedNetwork network;
    for (const HostNetworks& host : hosts) {
      const auto in_it = [&](const InterfaceAddress& address) {
        return network_of(address) == network_of(first) && address.address != host.address &&
               !is_loopback_address(address.address);
      };
      const auto found = std::ranges::find_if(host.addresses, in_it);
      if (found == host.addresses.end() || hosts_with[found->address] != 1) break;
      network.addresses.push_back(*found);
    }
    if (network.addresses.size() != hosts.size()) continue;
    network.speed_mbit = slowest(network.addresses);
    if (network.speed_mbit > control) faster.push_back(std::move(network));
  }
  std::ranges::stable_sort(faster, std::ranges::greater(), &SharedNetwork::speed_mbit);
  return faster;
}

std::vector<NetworkTrial> trials_over(const SharedNetwork& network) {
  const std::size_t hosts = network.addresses.size();
  std::vector<NetworkTrial> trials;
  for (std::size_t from = 0; from < hosts; ++from)
    for (std::size_t next = 1; next <= std::min(kTriedNeighbours, hosts - 1); ++next) {
      const std::size_t to = (from + next) % hosts;
      trials.push_back({from, to, network.addresses[from].address, network.addresses[to].address});
    }
  return trials;
}

}  // namespace

std::vector<NetworkTrial> required_trials(const std::vector<HostNetworks>& hosts) {
  std::vector<NetworkTrial> trials;
  for (const SharedNetwork& network : faster_networks(hosts))
    std::ranges::copy(trials_over(network), std::back_inserter(trials));
  return trials;
}

std::vector<std::string> choose_networks(const std::vector<HostNetworks>& hosts,
                                         const std::set<NetworkTrial>& succeeded) {
  std::vector<std::string> interfaces;
  for (const SharedNetwork& network : faster_networks(hosts)) {
    const bool reached = std::ranges::all_of(
        trials_over(network), [&](const NetworkTrial& trial) { return succeeded.contains(trial); });
    if (!reached) continue;
    for (const InterfaceAddress& address : network.addresses)
      interfaces.push_back(address.interface);
    return interfaces;
  }
  for (const HostNetworks& host : hosts)
    interfaces.push_back(host.interface.empty() ? interface_of(host.addresses, host.address)
                                                : host.interface);
  return interfaces;
}

}  // namespace weft

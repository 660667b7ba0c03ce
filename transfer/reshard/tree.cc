#include "transfer/reshard/tree.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/check.h"

namespace weft::transfer {

void add_binary_fan_out(const std::vector<DeviceId>& devices, std::vector<FlowEdge>& edges) {
  for (std::size_t i = 1; i < devices.size(); ++i)
    edges.push_back({devices[(i - 1) / 2], devices[i]});
}

void Loads::add(const Topology& topology, const std::vector<FlowEdge>& edges, std::uint64_t bytes) {
  for (const FlowEdge& edge : edges) {
    device_egress[edge.parent.value()] += bytes;
    device_ingress[edge.child.value()] += bytes;
    const HostId from = topology.host_of(edge.parent);
    if (from != topology.host_of(edge.child)) host_egress[from.value()] += bytes;
  }
}

DeviceId least_loaded_holder(const std::vector<DeviceId>& holders, const Topology& topology,
                             const Loads& loads) {
  WEFT_CHECK(!holders.empty());
  const auto load = [&](DeviceId device) {
    return std::tuple(loads.host_egress[topology.host_of(device).value()],
                      loads.device_egress[device.value()], device);
  };
  return *std::min_element(holders.begin(), holders.end(),
                           [&](DeviceId a, DeviceId b) { return load(a) < load(b); });
}

std::vector<FlowEdge> broadcast_tree(DeviceId root, const std::vector<DeviceId>& receivers,
                                     const Topology& topology, const Loads& loads) {
  std::vector<FlowEdge> edges;
  std::map<HostId, std::vector<DeviceId>> by_host;
  for (const DeviceId device : receivers) by_host[topology.host_of(device)].push_back(device);
  if (const auto own = by_host.find(topology.host_of(root)); own != by_host.end()) {
    own->second.insert(own->second.begin(), root);
    add_binary_fan_out(own->second, edges);
    by_host.erase(own);
  }
  std::vector<std::vector<DeviceId>> chain;
  for (auto& [host, devices] : by_host) {
    const auto load = [&](DeviceId device) {
      return std::tuple(loads.device_ingress[device.value()] + loads.device_egress[device.value()],
                        device);
    };
    std::sort(devices.begin(), devices.end(),
              [&](DeviceId a, DeviceId b) { return load(a) < load(b); });
    chain.push_back(devices);
  }
  std::stable_sort(chain.begin(), chain.end(), [&](const auto& a, const auto& b) {
    return loads.host_egress[topology.host_of(a.front()).value()] <
           loads.host_egress[topology.host_of(b.front()).value()];
  });
  DeviceId previous = root;
  for (const std::vector<DeviceId>& devices : chain) {
    edges.push_back({previous, devices.front()});
    previous = devices.front();
  }
  for (const std::vector<DeviceId>& devices : chain) add_binary_fan_out(devices, edges);
  return edges;
}

}  // namespace weft::transfer

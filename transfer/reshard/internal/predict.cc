#include "transfer/reshard/internal/predict.h"

#include <algorithm>
#include <unordered_map>

namespace weft::transfer::internal {

double predict_by_load(std::span<const Flow> flows, const Topology& topology,
                       const Network& network) {
  std::vector<double> egress(network.num_hosts()), ingress(network.num_hosts());
  double fill = 0;
  for (const Flow& flow : flows) {
    if (flow.edges.size() == 1) {
      const HostId from = topology.host_of(flow.root),
                   to = topology.host_of(flow.edges.front().child);
      if (from == to) continue;
      egress[from.value()] += flow.bytes;
      ingress[to.value()] += flow.bytes;
      fill = std::max(fill, network.hop_seconds);
      continue;
    }
    std::unordered_map<std::uint32_t, int> depth = {{flow.root.value(), 0}};
    int deepest = 0;
    double slowest = 0;  // seconds per byte
    for (const FlowEdge& edge : flow.edges) {
      const HostId from = topology.host_of(edge.parent), to = topology.host_of(edge.child);
      int& hops = depth[edge.child.value()];
      hops = depth.at(edge.parent.value());
      if (from == to) continue;
      deepest = std::max(deepest, ++hops);
      egress[from.value()] += flow.bytes;
      ingress[to.value()] += flow.bytes;
      slowest =
          std::max({slowest, 1 / network.host(from).egress(), 1 / network.host(to).ingress()});
    }
    if (deepest == 0) continue;
    const double lag = std::min(flow.chunk_bytes, flow.bytes);
    fill = std::max(fill, (deepest - 1) * lag * slowest + deepest * network.hop_seconds);
  }
  double busiest = 0;
  for (std::size_t host = 0; host < egress.size(); ++host)
    busiest = std::max({busiest, egress[host] / network.hosts[host].egress(),
                        ingress[host] / network.hosts[host].ingress()});
  return busiest + fill;
}

std::uint64_t wire_bytes(std::span<const Flow> flows, const Topology& topology) {
  std::uint64_t bytes = 0;
  for (const Flow& flow : flows) {
    for (const FlowEdge& edge : flow.edges)
      bytes += topology.host_of(edge.parent) == topology.host_of(edge.child) ? 0 : flow.bytes;
  }
  return bytes;
}

double predict(std::span<const Flow> flows, const Topology& topology, const Network& network,
               const std::vector<std::uint32_t>& places, std::uint64_t* steps) {
  std::size_t edges = 0, most_of_one = 0;
  std::vector<std::size_t> sends(topology.num_devices());
  for (const Flow& flow : flows) {
    for (const FlowEdge& edge : flow.edges) {
      if (topology.host_of(edge.parent) == topology.host_of(edge.child)) continue;
      ++edges;
      most_of_one = std::max(most_of_one, ++sends[edge.parent.value()]);
    }
  }
  const double by_load = predict_by_load(flows, topology, network);
  if (edges > 100'000) return by_load;
  SimulateOptions options;
  options.send_slots = places;
  // The resolution is finer than the time of one send of a device; otherwise all sends would seem
  // late.
  options.resolution_seconds =
      by_load / (edges > 2000 ? std::clamp<std::size_t>(8 * most_of_one, 150, 2000) : 2000);
  const FlowSimulation simulation = simulate(flows, topology, network, options);
  if (steps != nullptr) *steps += simulation.steps;
  return simulation.seconds;
}

}  // namespace weft::transfer::internal

#include "transfer/reshard/internal/flow_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace weft::transfer::internal {
namespace {

/// A flow as its hosts see it.
struct HostFlow {
  std::uint32_t root = 0;
  double lead_seconds = 0;  ///< Of the root's egress.
  struct Load {
    std::uint32_t host;
    double egress_seconds, ingress_seconds;
  };
  std::vector<Load> loads;
};

std::vector<HostFlow> host_flows(std::span<const Flow> flows, const Topology& topology, const Network& network) {
  std::vector<HostFlow> result;
  for (const Flow& flow : flows) {
    HostFlow host_flow;
    host_flow.root = topology.host_of(flow.root).value();
    const auto bytes = static_cast<double>(flow.bytes);
    for (const FlowEdge& edge : flow.edges) {
      const HostId from = topology.host_of(edge.parent), to = topology.host_of(edge.child);
      if (from == to) continue;
      const double egress = bytes / network.host(from).egress();
      if (from.value() == host_flow.root) host_flow.lead_seconds += egress;
      host_flow.loads.push_back({from.value(), egress, 0});
      host_flow.loads.push_back({to.value(), 0, bytes / network.host(to).ingress()});
    }
    result.push_back(std::move(host_flow));
  }
  return result;
}

}  // namespace

std::vector<std::uint32_t> list_order(std::span<const Flow> flows, const Topology& topology, const Network& network,
                                      PhiloxStream* random) {
  const std::vector<HostFlow> work = host_flows(flows, topology, network);
  const std::size_t hosts = network.num_hosts();
  std::vector<double> egress_free(hosts), ingress_free(hosts), egress_left(hosts), ingress_left(hosts);
  for (const HostFlow& flow : work) {
    for (const HostFlow::Load& load : flow.loads) {
      egress_left[load.host] += load.egress_seconds;
      ingress_left[load.host] += load.ingress_seconds;
    }
  }
  std::vector<std::uint32_t> left(flows.size()), order;
  std::iota(left.begin(), left.end(), 0u);
  while (!left.empty()) {
    std::size_t best = 0;
    double best_start = 0, best_work = -1;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const HostFlow& flow = work[left[i]];
      double start = egress_free[flow.root], most = 0;
      for (const HostFlow::Load& load : flow.loads) {
        if (load.ingress_seconds > 0) start = std::max(start, ingress_free[load.host]);
        most = std::max({most, egress_left[load.host], ingress_left[load.host]});
      }
      if (random != nullptr) most *= 0.7 + 0.6 * static_cast<double>(random->below(1024)) / 1024;
      if (best_work >= 0 && std::tuple(start, -most) >= std::tuple(best_start, -best_work)) continue;
      best = i;
      best_start = start;
      best_work = most;
    }
    const HostFlow& flow = work[left[best]];
    egress_free[flow.root] = best_start + flow.lead_seconds;
    for (const HostFlow::Load& load : flow.loads) {
      if (load.ingress_seconds > 0) ingress_free[load.host] = best_start + load.ingress_seconds;
      egress_left[load.host] -= load.egress_seconds;
      ingress_left[load.host] -= load.ingress_seconds;
    }
    order.push_back(left[best]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
  }
  return order;
}

std::vector<std::uint32_t> rotated_order(std::span<const Flow> flows, const Topology& topology) {
  // Per flow its root host and the first receiver, then both as ranks among all roots and among that root's receivers.
  std::vector<std::pair<HostId, HostId>> hops;
  std::map<HostId, std::map<HostId, std::size_t>> receivers;
  for (const Flow& flow : flows) {
    const HostId root = topology.host_of(flow.root);
    const auto first = std::find_if(flow.edges.begin(), flow.edges.end(),
                                    [&](const FlowEdge& edge) { return topology.host_of(edge.child) != root; });
    hops.emplace_back(root, first == flow.edges.end() ? root : topology.host_of(first->child));
    receivers[root].emplace(hops.back().second, 0);
  }
  std::map<HostId, std::size_t> rank_of_root;
  for (auto& [root, others] : receivers) {
    rank_of_root.emplace(root, rank_of_root.size());
    std::size_t rank = 0;
    for (auto& [host, place] : others) place = rank++;
  }
  std::vector<std::uint32_t> place(topology.num_devices()), devices(topology.num_hosts());
  for (std::uint32_t device = 0; device < place.size(); ++device)
    place[device] = devices[topology.host_of(DeviceId(device)).value()]++;
  // Hosts take turns, and within a pair of hosts their devices.
  std::vector<std::pair<std::size_t, std::uint32_t>> turn;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const auto& [root, receiver] = hops[i];
    const std::size_t count = receivers[root].size();
    const std::uint32_t partners = devices[receiver.value()];
    const DeviceId child = flows[i].edges.empty() ? flows[i].root : flows[i].edges.front().child;
    turn.emplace_back((receivers[root][receiver] + count - rank_of_root[root] % count) % count,
                      (place[child.value()] + partners - place[flows[i].root.value()] % partners) % partners);
  }
  std::vector<std::uint32_t> order(flows.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return turn[a] < turn[b]; });
  return order;
}

std::vector<std::uint32_t> interleaved_order(std::span<const Flow> flows, const Topology& topology) {
  std::vector<std::uint32_t> order(flows.size()), turn(flows.size()), count(topology.num_hosts());
  for (std::size_t i = 0; i < flows.size(); ++i) turn[i] = count[topology.host_of(flows[i].root).value()]++;
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return turn[a] < turn[b]; });
  return order;
}

std::vector<Flow> reordered(std::vector<Flow> flows, std::span<const std::uint32_t> order) {
  std::vector<Flow> result;
  result.reserve(flows.size());
  for (const std::uint32_t i : order) {
    result.push_back(std::move(flows[i]));
    result.back().id = FlowId(static_cast<std::uint32_t>(result.size() - 1));
  }
  return result;
}

}  // namespace weft::transfer::internal

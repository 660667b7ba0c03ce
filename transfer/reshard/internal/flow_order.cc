#include "transfer/reshard/internal/flow_order.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace weft::transfer::internal {

std::vector<std::uint32_t> rotated_order(std::span<const Flow> flows, const Topology& topology) {
  // Collects per flow its root host and its first receiver, then ranks both: among all roots, and
  // among that root's receivers.
  std::vector<std::pair<HostId, HostId>> hops;
  std::map<HostId, std::map<HostId, std::size_t>> receivers;
  for (const Flow& flow : flows) {
    const HostId root = topology.host_of(flow.root);
    const auto first =
        std::find_if(flow.edges.begin(), flow.edges.end(),
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
    turn.emplace_back(
        (receivers[root][receiver] + count - rank_of_root[root] % count) % count,
        (place[child.value()] + partners - place[flows[i].root.value()] % partners) % partners);
  }
  std::vector<std::uint32_t> order(flows.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return turn[a] < turn[b]; });
  return order;
}

std::vector<std::uint32_t> interleaved_order(std::span<const Flow> flows,
                                             const Topology& topology) {
  std::vector<std::uint32_t> order(flows.size()), turn(flows.size()), count(topology.num_hosts());
  for (std::size_t i = 0; i < flows.size(); ++i)
    turn[i] = count[topology.host_of(flows[i].root).value()]++;
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return turn[a] < turn[b]; });
  return order;
}

std::vector<Flow> reordered(std::vector<Flow> flows, std::span<const std::uint32_t> order) {
  std::vector<Flow> result;
  result.reserve(flows.size());
  for (const std::uint32_t i : order) {
    result.push_back(std::move(flows[i]));
    result.back().id = FlowId(result.size() - 1);
  }
  return result;
}

}  // namespace weft::transfer::internal

#include "transfer/reshard/internal/plan_builder.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "core/base/check.h"
#include "transfer/flow/egress_limit.h"

namespace weft::transfer::internal {
namespace {

/// Unit of chunk sizes. It fits into one fragment of the shared-memory queue, so that it needs no
/// reassembly.
constexpr std::uint64_t kSmallestChunk = 56 * 1024;

/// Returns the network hops from the root to the farthest device.
int depth_of(const Flow& flow, const Topology& topology) {
  if (flow.edges.size() == 1)
    return topology.host_of(flow.root) == topology.host_of(flow.edges[0].child) ? 0 : 1;
  std::unordered_map<std::uint32_t, int> depth = {{flow.root.value(), 0}};
  int deepest = 0;
  for (const FlowEdge& edge : flow.edges) {
    const int hops = depth.at(edge.parent.value()) +
                     (topology.host_of(edge.parent) == topology.host_of(edge.child) ? 0 : 1);
    depth[edge.child.value()] = hops;
    deepest = std::max(deepest, hops);
  }
  return deepest;
}

}  // namespace

DeviceId PlanBuilder::sender_for(HostId host, const SliceGroup& bundle) const {
  const std::vector<DeviceId> near = on_host(bundle.holders, host, topology_);
  return least_loaded_holder(near.empty() ? bundle.holders : near, topology_, loads_);
}

void PlanBuilder::add(const SliceGroup& bundle, ByteRange range, DeviceId root,
                      std::vector<FlowEdge> edges) {
  Flow flow;
  flow.segments = range.bytes == bundle.bytes ? bundle.segments
                                              : cut(bundle.segments, range.begin, range.bytes);
  flow.root = root;
  flow.edges = std::move(edges);
  flow.bytes = range.bytes;
  loads_.add(topology_, flow.edges, flow.bytes);
  flows_.push_back(std::move(flow));
  element_sizes_.push_back(bundle.element_size);
  roots_.push_back(on_host(bundle.holders, topology_.host_of(root), topology_));
}

void PlanBuilder::add_local(const SliceGroup& bundle) {
  if (bundle.receivers.size() == 1 && bundle.datum != SliceGroup::kNoDatum) return;
  const std::vector<HostId> holder_hosts = hosts_of(bundle.holders, topology_);
  std::map<HostId, std::vector<DeviceId>> local;
  for (const DeviceId receiver : bundle.receivers) {
    const HostId host = topology_.host_of(receiver);
    if (std::binary_search(holder_hosts.begin(), holder_hosts.end(), host))
      local[host].push_back(receiver);
  }
  for (auto& [host, receivers] : local) {
    const DeviceId root = sender_for(host, bundle);
    std::vector<FlowEdge> edges;
    receivers.insert(receivers.begin(), root);
    add_binary_fan_out(receivers, edges);
    add(bundle, root, std::move(edges));
  }
}

std::vector<FlowEdge> PlanBuilder::edges_along(const SliceGroup& bundle, DeviceId root,
                                               std::span<const HostEdge> hosts) const {
  if (hosts.size() == 1 && bundle.receivers.size() == 1) return {{root, bundle.receivers.front()}};
  std::unordered_map<std::uint32_t, DeviceId> entry = {{topology_.host_of(root).value(), root}};
  std::map<HostId, std::vector<DeviceId>> by_host;
  for (const DeviceId device : bundle.receivers)
    by_host[topology_.host_of(device)].push_back(device);
  const auto load = [&](DeviceId device) {
    return std::tuple(loads_.device_ingress[device.value()] + loads_.device_egress[device.value()],
                      device);
  };
  std::vector<FlowEdge> edges;
  for (const HostEdge& edge : hosts) {
    std::vector<DeviceId>& devices = by_host.at(edge.child);
    std::sort(devices.begin(), devices.end(),
              [&](DeviceId a, DeviceId b) { return load(a) < load(b); });
    edges.push_back({entry.at(edge.parent.value()), devices.front()});
    entry[edge.child.value()] = devices.front();
  }
  for (const HostEdge& edge : hosts) add_binary_fan_out(by_host.at(edge.child), edges);
  return edges;
}

void PlanBuilder::add_chain(const SliceGroup& bundle, HostId sender) {
  if (bundle.datum != SliceGroup::kNoDatum) {
    std::vector<HostEdge> chain;
    HostId previous = sender;
    for (const HostId host : demand_.data[bundle.datum].receivers) {
      chain.push_back({previous, host});
      previous = host;
    }
    const DeviceId root = sender_for(sender, bundle);
    add(bundle, root, edges_along(bundle, root, chain));
  }
  add_local(bundle);
}

std::vector<Flow> PlanBuilder::finish(double limit_seconds) {
  const std::vector<std::uint32_t> streams = streams_of_hosts();
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    flows_[i].id = FlowId(i);
    choose_chunks(flows_[i], element_sizes_[i], limit_seconds, streams);
  }
  return std::move(flows_);
}

std::vector<std::uint32_t> placement_order(const ReshardDemand& demand) {
  std::vector<std::uint32_t> order(demand.bundles.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const SliceGroup &x = demand.bundles[a], &y = demand.bundles[b];
    return x.holders.size() != y.holders.size() ? x.holders.size() < y.holders.size()
                                                : x.bytes > y.bytes;
  });
  return order;
}

std::vector<std::uint32_t> PlanBuilder::streams_of_hosts() const {
  std::vector<std::uint32_t> by_device(topology_.num_devices()), by_host(topology_.num_hosts());
  for (const Flow& flow : flows_) {
    DeviceId last;
    bool any = false;
    for (const FlowEdge& edge : flow.edges) {
      if (topology_.host_of(edge.parent) == topology_.host_of(edge.child) ||
          (any && edge.parent == last))
        continue;
      last = edge.parent;
      any = true;
      ++by_device[last.value()];
    }
  }
  std::vector<std::uint32_t> devices(topology_.num_hosts());
  for (const HostId host : topology_.host_of_device) ++devices[host.value()];
  for (std::uint32_t device = 0; device < by_device.size(); ++device) {
    const std::uint32_t host = topology_.host_of(DeviceId(device)).value();
    by_host[host] +=
        std::min<std::uint32_t>(by_device[device], EgressLimit().limit_per_device(devices[host]));
  }
  return by_host;
}

void PlanBuilder::choose_chunks(Flow& flow, std::size_t element_size, double limit_seconds,
                                std::span<const std::uint32_t> streams) const {
  if (options_.chunks) return set_chunks(flow, element_size, *options_.chunks);
  double slowest = std::numeric_limits<double>::infinity();
  std::uint32_t most_streams = 0;
  const auto look_at = [&](DeviceId device) {
    const HostId id = topology_.host_of(device);
    const Network::HostLinks& host = network_.host(id);
    slowest = std::min({slowest, host.egress(), host.ingress()});
    most_streams = std::max(most_streams, streams[id.value()]);
  };
  look_at(flow.root);
  for (const FlowEdge& edge : flow.edges) look_at(edge.child);
  const auto whole = [](double bytes, double low, double high) {
    const auto chunk = static_cast<std::uint64_t>(std::clamp(bytes, low, high));
    return std::max(chunk / kSmallestChunk, std::uint64_t{1}) * kSmallestChunk;
  };
  ChunkOptions chunks;
  chunks.window = 2;
  // Chunks of 1.5 ms keep the wire busy. Chunks of 8 ms suffice where no device forwards them.
  chunks.direct_chunk_bytes = whole(slowest * 8e-3, 256.0 * 1024, 4.0 * 1024 * 1024);
  const int depth = depth_of(flow, topology_);
  // If chunks are forwarded only inside the host, smaller ones would only add wake-ups.
  double chunk =
      std::clamp(slowest * 1.5e-3, depth > 1 ? 64.0 * 1024 : 128.0 * 1024, 4.0 * 1024 * 1024);
  if (depth > 1) {
    // Each of n flows that share a link lags by its window, so n windows remain at the end.
    const double seconds = std::max(limit_seconds, flow.bytes / slowest);
    chunk = std::min(chunk, 0.012 * seconds * slowest /
                                (chunks.window * (depth - 1) * std::max(1u, most_streams / 2)));
  }
  chunks.chunk_bytes = whole(chunk, 64.0 * 1024, 4.0 * 1024 * 1024);
  set_chunks(flow, element_size, chunks);
}

}  // namespace weft::transfer::internal

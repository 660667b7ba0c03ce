#include "mesh/program/traffic.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include "transfer/flow/egress_limit.h"
#include "transfer/flow/simulate.h"

namespace weft::mesh {
namespace {

/// Largest message over TCP that the wire delivers before its receive is posted
/// (UcxWireOptions::tcp_eager_bytes).
constexpr std::uint64_t kEagerChunk = 256 * 1024;

/// A transfer with all its participants.
struct WholeTransfer {
  std::map<transfer::FlowId, transfer::Flow> flows;
  std::set<transfer::DeviceId> reducing;             ///< Devices that sum incoming flows.
  std::map<transfer::DeviceId, std::size_t> places;  ///< DevicePart::egress_slots by device.
};

/// Sorts the edges of a flow: parents before their children.
void sort_edges(transfer::Flow& flow) {
  std::vector<transfer::FlowEdge> open = std::exchange(flow.edges, {});
  std::vector<transfer::DeviceId> reached{flow.root};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (const transfer::FlowEdge& edge : open) {
      if (edge.parent != reached[i]) continue;
      flow.edges.push_back(edge);
      reached.push_back(edge.child);
    }
  }
}

std::map<std::uint32_t, WholeTransfer> whole_transfers(const std::vector<Program>& programs) {
  std::map<std::uint32_t, WholeTransfer> result;
  for (const Program& program : programs) {
    for (const Transfer& transfer : program.transfers) {
      WholeTransfer& whole = result[transfer.op];
      const transfer::DevicePart* const part = transfer.engine_share();
      if (part == nullptr) continue;
      if (!part->reductions.empty()) whole.reducing.insert(program.device);
      whole.places[program.device] = part->egress_slots;
      for (const transfer::FlowRole& stream : part->streams) {
        transfer::Flow& flow = whole.flows[stream.flow];
        flow.id = stream.flow;
        flow.bytes = stream.bytes;
        flow.chunk_bytes = stream.chunk_bytes;
        flow.window = stream.window;
        if (!stream.parent) flow.root = program.device;
        transfer::Flow& passed_on = whole.flows[stream.outgoing_id()];
        if (stream.result) {
          whole.reducing.insert(program.device);
          passed_on.root = program.device;
        }
        for (const transfer::DeviceId child : stream.children)
          passed_on.edges.push_back({program.device, child});
      }
    }
  }
  for (auto& [op, whole] : result) {
    for (auto& [id, flow] : whole.flows) sort_edges(flow);
  }
  return result;
}

class TrafficBuilder {
 public:
  TrafficBuilder(const transfer::Topology& topology, const transfer::Network& network,
                 const TrafficOptions& options)
      : topology_(topology), network_(network) {
    for (const transfer::Network::HostLinks& host : network.hosts) {
      traffic_.link_rates.push_back(host.egress());
      traffic_.link_rates.push_back(host.ingress());
    }
    std::map<transfer::HostId, std::size_t> devices;
    for (const transfer::HostId host : topology.host_of_device) ++devices[host];
    for (const transfer::HostId host : topology.host_of_device) {
      traffic_.queue_places.push_back(transfer::EgressLimit().limit_per_device(devices[host]));
      double& next = next_weight_.try_emplace(host, 1).first->second;
      weights_.push_back(next);
      next *= options.device_weight_ratio;
    }
  }

  Traffic run(const std::vector<Program>& programs) {
    for (const auto& [op, whole] : whole_transfers(programs)) {
      std::vector<Traffic::FlowMovement>& movements = traffic_.movements[op];
      std::vector<transfer::Flow> flows;
      for (const auto& [id, flow] : whole.flows) flows.push_back(flow);
      if (!whole.reducing.empty()) {
        if (!flows.empty()) movements.push_back(movement(flows));
        continue;
      }
      for (const transfer::Flow& flow : flows) movements.push_back(movement_of(flow, whole));
    }
    return std::move(traffic_);
  }

 private:
  /// Returns the movement of all devices of the flows. Alone, it takes as long as
  /// transfer::simulate() says.
  Traffic::FlowMovement movement(std::span<const transfer::Flow> flows) const {
    Traffic::FlowMovement result;
    std::set<transfer::DeviceId> devices;
    for (const transfer::Flow& flow : flows) {
      devices.insert(flow.root);
      for (const transfer::FlowEdge& edge : flow.edges) devices.insert(edge.child);
    }
    result.devices.assign(devices.begin(), devices.end());
    const transfer::FlowSimulation alone = transfer::simulate(flows, topology_, network_);
    for (const auto* bytes : {&alone.egress_bytes, &alone.ingress_bytes}) {
      for (const double one : *bytes) result.bytes = std::max(result.bytes, one);
    }
    double moving = 0;
    for (std::size_t host = 0; host < network_.num_hosts() && result.bytes > 0; ++host) {
      for (const bool in : {false, true}) {
        const double bytes = (in ? alone.ingress_bytes : alone.egress_bytes)[host];
        const std::size_t link = 2 * host + (in ? 1 : 0);
        if (bytes <= 0) continue;
        result.crossings.push_back({static_cast<std::uint32_t>(link), bytes / result.bytes});
        moving = std::max(moving, bytes / traffic_.link_rates[link]);
      }
    }
    result.latency = std::max(0.0, alone.seconds - moving);
    return result;
  }

  Traffic::FlowMovement movement_of(const transfer::Flow& flow, const WholeTransfer& whole) const {
    Traffic::FlowMovement result = movement({&flow, 1});
    const std::optional<transfer::DeviceId> sender = sender_of(flow);
    if (!sender) return result;
    result.queue = {sender->value(), *sender, whole.places.at(*sender)};
    result.weight = weights_[sender->value()];
    const auto straight = [&](const transfer::FlowEdge& edge) {
      return edge.parent == *sender || !between_hosts(edge);
    };
    if (*sender == flow.root && flow.chunk_bytes <= kEagerChunk &&
        std::ranges::all_of(flow.edges, straight))
      result.eager_chunk = flow.chunk_bytes;
    part_devices(flow, result);
    return result;
  }

  /// Fills `devices` and `behind`: a device that gets the flow inside its host is behind the host's
  /// device at which the flow enters or leaves.
  void part_devices(const transfer::Flow& flow, Traffic::FlowMovement& movement) const {
    std::set<transfer::DeviceId> in_front{flow.root};
    for (const transfer::FlowEdge& edge : flow.edges) {
      if (between_hosts(edge)) in_front.insert({edge.parent, edge.child});
    }
    movement.devices.assign(in_front.begin(), in_front.end());
    std::map<transfer::DeviceId, transfer::DeviceId> from;
    for (const transfer::FlowEdge& edge : flow.edges) {
      if (in_front.contains(edge.child)) continue;
      const transfer::DeviceId first =
          in_front.contains(edge.parent) ? edge.parent : from.at(edge.parent);
      from.emplace(edge.child, first);
      movement.behind.push_back({edge.child, first});
    }
  }

  bool between_hosts(const transfer::FlowEdge& edge) const {
    return topology_.host_of(edge.parent) != topology_.host_of(edge.child);
  }

  /// Returns the first device that sends the flow to another host.
  std::optional<transfer::DeviceId> sender_of(const transfer::Flow& flow) const {
    for (const transfer::FlowEdge& edge : flow.edges) {
      if (between_hosts(edge)) return edge.parent;
    }
    return std::nullopt;
  }

  const transfer::Topology& topology_;
  const transfer::Network& network_;
  std::map<transfer::HostId, double> next_weight_;
  std::vector<double> weights_;  ///< Weights by device.
  Traffic traffic_;
};

}  // namespace

Traffic traffic_of(const std::vector<Program>& programs, const transfer::Topology& topology,
                   const transfer::Network& network, const TrafficOptions& options) {
  return TrafficBuilder(topology, network, options).run(programs);
}

double busiest_link_seconds(const std::vector<Program>& programs,
                            const transfer::Topology& topology, const transfer::Network& network) {
  std::vector<double> egress(network.num_hosts(), 0), ingress(network.num_hosts(), 0);
  for (const Program& program : programs) {
    const transfer::HostId here = topology.host_of(program.device);
    for (const Instruction& instruction : program.instructions) {
      const Start* start = std::get_if<Start>(&instruction);
      if (start == nullptr) continue;
      const auto count = [&](transfer::DeviceId to, std::uint64_t bytes) {
        const transfer::HostId there = topology.host_of(to);
        if (there == here) return;
        egress.at(here.value()) += bytes;
        ingress.at(there.value()) += bytes;
      };
      const Transfer& transfer = program.transfers.at(start->transfer);
      if (const transfer::DevicePart* const part = transfer.engine_share()) {
        for (const transfer::FlowRole& stream : part->streams) {
          for (const transfer::DeviceId child : stream.children) count(child, stream.bytes);
        }
      } else {
        for (const auto& [to, bytes] : transfer.library_share()->sent) count(to, bytes);
      }
    }
  }
  double most = 0;
  for (std::size_t h = 0; h < network.num_hosts(); ++h)
    most = std::max(
        {most, egress[h] / network.hosts[h].egress(), ingress[h] / network.hosts[h].ingress()});
  return most;
}

}  // namespace weft::mesh

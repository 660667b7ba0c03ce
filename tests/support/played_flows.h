#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/simulation/simulate_tasks.h"
#include "transfer/flow/simulate.h"

namespace weft::test {

/// Result of flows simulated as tasks, with one movement per chunk and edge between hosts.
/// `flow_seconds` is the time at which a flow has arrived everywhere. Without relays, it equals
/// transfer::simulate() exactly. Relays forward whole chunks, take no slots and have no latency.
/// `places` is that of transfer::SimulateOptions.
struct PlayedFlows {
  std::vector<double> flow_seconds;
  double seconds = 0;
  std::size_t tasks = 0;
};

inline PlayedFlows play_flows(std::span<const transfer::Flow> flows,
                              const transfer::Topology& topology, const transfer::Network& network,
                              std::vector<std::uint32_t> places) {
  std::vector<std::uint32_t> devices(topology.num_hosts());
  for (const transfer::HostId host : topology.host_of_device) ++devices[host.value()];
  if (places.empty()) {
    for (const transfer::HostId host : topology.host_of_device) {
      const transfer::EgressLimit rule;
      places.push_back(rule.limit_per_device(devices[host.value()]));
    }
  }
  TaskGraph graph;
  for (const transfer::Network::HostLinks& host : network.hosts) {
    graph.links.rates.push_back(host.egress());
    graph.links.rates.push_back(host.ingress());
  }
  graph.links.queues = topology.num_devices();
  std::vector<std::vector<TaskId>> last(flows.size());
  for (std::size_t f = 0; f < flows.size(); ++f) {
    const transfer::Flow& flow = flows[f];
    std::map<transfer::DeviceId, std::vector<TaskId>> brought = {{flow.root, {}}};
    for (const transfer::FlowEdge& edge : flow.edges) {
      const std::vector<TaskId> feeder = brought.at(edge.parent);
      const auto from = topology.host_of(edge.parent), to = topology.host_of(edge.child);
      if (from == to) {
        brought[edge.child] = feeder;
        continue;
      }
      const bool relays = flow.edges.size() > 1;
      const std::uint64_t chunk = relays ? flow.chunk_bytes : flow.bytes;
      std::vector<TaskId> chunks;
      for (std::uint64_t begin = 0; begin < flow.bytes; begin += chunk) {
        Movement movement;
        movement.amount = std::min(chunk, flow.bytes - begin);
        movement.link_uses = {{2 * from.value()}, {2 * to.value() + 1}};
        movement.latency = relays ? 0 : network.hop_seconds;
        if (feeder.empty()) {
          movement.queue = {edge.parent.value(), 1,
                            static_cast<double>(places[edge.parent.value()])};
        }
        const TaskId task = graph.add(std::move(movement));
        if (!chunks.empty()) graph.add_dependency(task, chunks.back());
        if (!feeder.empty()) graph.add_dependency(task, feeder[chunks.size()]);
        chunks.push_back(task);
      }
      last[f].push_back(chunks.back());
      brought[edge.child] = std::move(chunks);
    }
  }
  const TaskTimes times = simulate_tasks(graph);
  PlayedFlows result{std::vector<double>(flows.size()), 0, graph.size()};
  for (std::size_t f = 0; f < flows.size(); ++f) {
    for (const TaskId task : last[f])
      result.flow_seconds[f] = std::max(result.flow_seconds[f], times.end[task.value()]);
    result.seconds = std::max(result.seconds, result.flow_seconds[f]);
  }
  return result;
}

}  // namespace weft::test

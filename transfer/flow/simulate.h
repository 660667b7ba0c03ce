#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transfer/flow/egress_rule.h"
#include "transfer/flow/flow.h"
#include "transfer/topology/network.h"

namespace weft::transfer {

struct SimulateOptions {
  /// As the executor keeps it.
  EgressRule egress = {};
  /// Per device, how many flows it sends at a time; empty: as `egress` says.
  std::vector<std::uint32_t> places = {};
  /// Events closer together than this are handled as one. 0: each on its own. The first are told
  /// apart more finely: symmetric flows need no more, and it is their start where a coarse step
  /// would do harm.
  double resolution_seconds = 0;
  /// kIgnored: trees fill in no time, as with endlessly small chunks and no latency. Far fewer
  /// events, and a coarse resolution does little harm: for large sets of flows.
  enum class Fill : std::uint8_t { kExact, kIgnored };
  Fill fill = Fill::kExact;
};

/// What the simulator expects of a set of flows that start together.
struct FlowSimulation {
  double seconds = 0;                ///< Until the last byte has landed everywhere.
  std::vector<double> flow_seconds;  ///< Per flow, until it has landed everywhere.
  std::vector<double> egress_bytes;  ///< Per host.
  std::vector<double> ingress_bytes;
  std::uint64_t events = 0;
  std::uint64_t steps = 0;  ///< Edges that sent, summed over the events: what simulating cost.
};

/// Runs `flows` (in order of their ids) as fluids through the hosts' links. Pure and deterministic;
/// hundreds of flows per millisecond.
///
/// What is modelled: every edge between hosts takes its max-min fair share of its sender's egress
/// and its receiver's ingress. A device passes on what it has, so a slow child delays its own
/// subtree only. A device lags behind its parent by a chunk and a hop's latency: a chain of h hops
/// takes S / B * (1 + (h - 1) * chunk_bytes / S) + h * hop_seconds. A device sends as many flows at
/// a time as `egress` says, lower ids first; a flow that it passes on as fast as it comes in, at
/// most a chunk behind, takes no place, since it is idle in between. What is not: links inside
/// hosts (free), several interfaces of a host (their sum), processor time, losses, and that what
/// has arrived long ago does not compete with what arrives now, so that senders with little to send
/// are done before a fluid would be.
FlowSimulation simulate(std::span<const Flow> flows, const Topology& topology,
                        const Network& network, const SimulateOptions& options = {});

/// Bytes [begin, end) of a flow, sent in one go by `root`.
struct FlowRun {
  std::uint32_t flow = 0;  ///< Index.
  DeviceId root;
  double begin = 0, end = 0;
};

struct PreemptOptions {
  double step_seconds = 0;    ///< How often the flows that are sent are chosen anew.
  double smallest_bytes = 0;  ///< Shorter runs are not made, of flows that are longer.
  double sharpness = 20;      ///< How much less a link counts that has less to do than others.
  /// How much more a flow counts for each host that passes it on: those have a tail.
  double depth_weight = 0.05;
};

struct PreemptiveSchedule {
  std::vector<FlowRun> runs;  ///< In the order of their starts.
  std::uint64_t steps = 0;    ///< See FlowSimulation.
};

/// Who sends what when: the flows, whatever their ids, cut where their roots had better go on with
/// another one, in the order of their starts. Every device then sends as many at a time as
/// `options` says and is never idle while it has something to send, as in simulate(), so that flows
/// with ids in this order run as they do here.
///
/// Preemptive open-shop scheduling (Gonzalez and Sahni, 1976), in steps: what is sent at any time
/// are flows between those links that have most left to do, so that no link that decides the time
/// stands still. The busiest hosts choose first.
PreemptiveSchedule preemptive_schedule(std::span<const Flow> flows,
                                       std::span<const std::vector<DeviceId>> roots,
                                       const Topology& topology, const Network& network,
                                       const PreemptOptions& preempt,
                                       const SimulateOptions& options = {});

}  // namespace weft::transfer

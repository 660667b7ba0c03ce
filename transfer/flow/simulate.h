#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transfer/flow/egress_limit.h"
#include "transfer/flow/flow.h"
#include "transfer/topology/network.h"

namespace weft::transfer {

struct SimulateOptions {
  /// Limit on concurrent sends, as the executor applies it.
  EgressLimit egress = {};
  /// Number of flows that each device sends at a time. Empty: as `egress` says.
  std::vector<std::uint32_t> send_slots = {};
  /// Events closer together than this are handled as one. 0: each event on its own. The first
  /// events use a finer resolution. Symmetric flows have only few events, and a coarse start does
  /// most harm.
  double resolution_seconds = 0;
  /// Model of the time that a tree takes to fill. kIgnored: none, as with infinitely small chunks
  /// and no latency. Meant for large sets of flows: kIgnored needs far fewer events, and a coarse
  /// resolution does little harm.
  enum class Fill : std::uint8_t { kExact, kIgnored };
  Fill fill = Fill::kExact;
};

/// Result of simulating a set of flows that start together.
struct FlowSimulation {
  double seconds = 0;                ///< Time until the last byte has landed everywhere.
  std::vector<double> flow_seconds;  ///< Per flow, time until it has landed everywhere.
  std::vector<double> egress_bytes;  ///< Bytes that each host sends.
  std::vector<double> ingress_bytes;
  std::uint64_t events = 0;
  std::uint64_t steps = 0;  ///< Cost of the simulation: edges that sent, summed over the events.
};

/// Simulates `flows`, in order of their ids, as fluids through the hosts' links. Pure and
/// deterministic; handles hundreds of flows per millisecond.
///
/// Modelled: every edge between hosts gets its max-min fair share of its sender's egress and its
/// receiver's ingress. A device forwards the bytes that it has, so a slow child delays its own
/// subtree only. A device lags behind its parent by a chunk and a hop's latency. A chain of h hops
/// takes S / B * (1 + (h - 1) * chunk_bytes / S) + h * hop_seconds. A device sends as many flows at
/// a time as `egress` says, lower ids first. A flow that it forwards as fast as it arrives, at most
/// a chunk behind, takes no slot, since its sends are idle in between.
///
/// Not modelled: links inside hosts (free), several interfaces of a host (their sum is used),
/// processor time and losses. Bytes that arrived long ago compete with bytes that arrive now, while
/// in reality they do not; so senders with little to send finish earlier than here.
FlowSimulation simulate(std::span<const Flow> flows, const Topology& topology,
                        const Network& network, const SimulateOptions& options = {});

/// Bytes [begin, end) of a flow that `root` sends without interruption.
struct FlowRun {
  std::uint32_t flow = 0;  ///< Index of the flow.
  DeviceId root;
  double begin = 0, end = 0;
};

struct PreemptOptions {
  double step_seconds = 0;    ///< Seconds between two choices of the flows to send.
  double smallest_bytes = 0;  ///< Length of the shortest run. A whole flow may be shorter.
  /// Discount of links with less work left: exp(sharpness * (work / most work - 1)).
  double sharpness = 20;
  /// Bonus of a flow per forwarding host, because forwarding finishes later than the root's send.
  double depth_weight = 0.05;
};

struct PreemptiveSchedule {
  std::vector<FlowRun> runs;  ///< Runs in the order of their starts.
  std::uint64_t steps = 0;    ///< Cost of the schedule, as in FlowSimulation.
};

/// Chooses which root sends which bytes when. Ignores the flows' ids. Cuts a flow where its root
/// should rather continue with another flow. Every device sends as many flows at a time as
/// `options` says and is never idle while it has something to send, as in simulate(). So flows with
/// ids in the order of the runs proceed in the same way. `roots[i]` lists the devices that can send
/// flow i.
///
/// Preemptive open-shop scheduling (Gonzalez and Sahni, 1976), in time steps. The flows sent at any
/// time use the links with the most work left, so that no link that decides the time is idle. The
/// busiest hosts choose first.
PreemptiveSchedule preemptive_schedule(std::span<const Flow> flows,
                                       std::span<const std::vector<DeviceId>> roots,
                                       const Topology& topology, const Network& network,
                                       const PreemptOptions& preempt,
                                       const SimulateOptions& options = {});

}  // namespace weft::transfer

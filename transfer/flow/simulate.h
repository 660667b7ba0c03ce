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
  /// Events closer together than this are handled as one. 0: each on its own. The first are told apart more finely: symmetric
  /// flows need no more, and it is their start where a coarse step would do harm.
  double resolution_seconds = 0;
  /// kIgnored: trees fill in no time, as with endlessly small chunks and no latency. Far fewer events, and a coarse resolution
  /// does little harm: for large sets of flows.
  enum class Fill : std::uint8_t { kExact, kIgnored };
  Fill fill = Fill::kExact;
};

/// What the simulator expects of a set of flows that start together.
struct Simulation {
  double seconds = 0;                ///< Until the last byte has landed everywhere.
  std::vector<double> flow_seconds;  ///< Per flow, until it has landed everywhere.
  std::vector<double> egress_bytes;  ///< Per host.
  std::vector<double> ingress_bytes;
  std::uint64_t events = 0;
  std::uint64_t steps = 0;  ///< Edges that sent, summed over the events: what simulating cost.
};

/// Runs `flows` (in order of their ids) as fluids through the hosts' links. Pure and deterministic; hundreds of flows per
/// millisecond.
///
/// What is modelled: every edge between hosts takes its max-min fair share of its sender's egress and its receiver's ingress. A
/// device passes on what it has, so a slow child delays its own subtree only. A device lags behind its parent by a chunk and a
/// hop's latency: a chain of h hops takes S / B * (1 + (h - 1) * chunk_bytes / S) + h * hop_seconds. A device sends as many
/// flows at a time as `egress` says, lower ids first; a flow that it passes on as fast as it comes in, at most a chunk behind,
/// takes no place, since it is idle in between. What is not: links inside hosts (free), several interfaces of a host (their
/// sum), processor time, losses, and that what has arrived long ago does not compete with what arrives now, so that senders with
/// little to send are done before a fluid would be.
Simulation simulate(std::span<const Flow> flows, const Topology& topology, const Network& network,
                    const SimulateOptions& options = {});

}  // namespace weft::transfer

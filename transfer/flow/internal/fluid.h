#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/simulation/max_min_shares.h"
#include "transfer/flow/simulate.h"

namespace weft::transfer::internal {

class RunChooser;

/// One edge between hosts of one flow's tree, seen as a fluid. Edges inside hosts are free and left
/// out: the edge that brings the flow to a device's host feeds what that device sends.
struct FluidEdge {
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::uint32_t flow = 0;
  std::uint32_t from = 0, to = 0;  ///< Hosts.
  /// The edge that brings the sender what it passes on; none at the root.
  std::uint32_t feeder = kNone;
  double bytes = 0;
  double lag = 0;  ///< How far it stays behind its feeder while that runs.

  double sent = 0;
  double rate = 0;
  bool done = false;
  bool started = false;
  // Of the allocation under way.
  bool active = false, coupled = false;
};

/// What one device sends of one flow to other hosts: it takes one of the device's places.
struct FluidStream {
  std::vector<std::uint32_t> edges;
};

/// The state of a simulation. Lives for one call of simulate().
class Fluid {
 public:
  Fluid(std::span<const Flow> flows, const Topology& topology, const Network& network,
        const SimulateOptions& options);
  FlowSimulation run();
  /// See preemptive_schedule().
  PreemptiveSchedule schedule(std::span<const Flow> flows,
                              std::span<const std::vector<DeviceId>> roots,
                              const Topology& topology, const PreemptOptions& preempt);

 private:
  void add_flow(std::uint32_t index, const Flow& flow, const Topology& topology);
  void add_edge(std::uint32_t index, const Flow& flow, const FlowEdge& edge,
                const Topology& topology, std::uint32_t feeder, std::uint32_t stream);
  void choose_active();
  void allocate();
  void set_rate(std::uint32_t edge, double rate);
  double next_event() const;
  void advance(double seconds);
  void start(std::uint32_t edge);
  /// What the sender has and could send; infinite where nothing more has to arrive first.
  double backlog(const FluidEdge& edge) const;
  /// Lets time pass until something happens; `until` at the latest.
  void step(double until);
  // Of schedule().
  void choose_runs(RunChooser& chooser, double smallest_bytes, bool anew);
  double sent_by_root(std::uint32_t flow) const;

  std::vector<FluidEdge> edges_;
  std::vector<std::vector<std::uint32_t>> fed_;  ///< Per edge, the edges that it feeds.
  struct Device {
    std::vector<FluidStream> streams;  ///< In order of their flows.
    std::vector<std::uint32_t> live;   ///< Indices of those that have something to send, ascending.
    std::size_t places = 1;            ///< How many of those may send at a time.
  };
  std::vector<Device> devices_;
  struct Sender {
    std::uint32_t device, stream;
  };
  std::vector<Sender> sender_of_;  ///< Per edge.
  std::vector<double> capacity_;   ///< Egress of host h at 2h, ingress at 2h + 1. Bytes per second.
  SimulateOptions options_;
  double hop_seconds_;

  double now_ = 0;
  std::size_t unfinished_ = 0;
  struct Start {
    double seconds;
    std::uint32_t edge;
  };
  std::vector<Start> starts_;          ///< Edges whose first chunk is on its way.
  std::vector<std::uint32_t> active_;  ///< Edges that send now.
  /// Edges whose feeder has not yet brought the first chunk, while that runs.
  std::vector<std::uint32_t> waiting_;
  MaxMinShares shares_;  ///< Of the capacities, by edge.
  FlowSimulation result_;

  // Of schedule(): what roots send is chosen, not taken in the order of ids.
  bool scheduling_ = false;
  std::vector<std::vector<std::uint32_t>> edges_of_;  ///< Per flow, those between hosts.
  std::vector<bool> chosen_;                          ///< Per flow.
  /// Per flow that is chosen, index into runs_.
  std::vector<std::size_t> run_of_;
  std::vector<FlowRun> runs_;
};

}  // namespace weft::transfer::internal

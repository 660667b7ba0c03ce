#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/simulation/max_min_shares.h"
#include "transfer/flow/simulate.h"

namespace weft::transfer::internal {

class RunChooser;

/// Edge between hosts of one flow's tree, modelled as a fluid. Edges inside hosts are free and left
/// out: the edge that brings the flow to a device's host feeds the device's sends.
struct FluidEdge {
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::uint32_t flow = 0;
  std::uint32_t from = 0, to = 0;  ///< Sender's and receiver's host.
  /// Index of the edge that feeds the sender. kNone at the root.
  std::uint32_t feeder = kNone;
  double bytes = 0;
  double chunk_lag_bytes =
      0;  ///< Bytes by which this edge stays behind its feeder while the feeder runs.

  double sent = 0;
  double rate = 0;
  bool done = false;
  bool started = false;
  // State of the current allocation.
  bool active = false, coupled = false;
};

/// Sends of one device for one flow to other hosts. A stream takes one of the device's slots.
struct FluidStream {
  std::vector<std::uint32_t> edges;
};

/// State of a simulation. Lives for one call of simulate() or preemptive_schedule().
class FluidSimulation {
 public:
  FluidSimulation(std::span<const Flow> flows, const Topology& topology, const Network& network,
                  const SimulateOptions& options);
  FlowSimulation run();
  /// Implements preemptive_schedule().
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
  /// Returns the bytes that the sender has and has not sent. Infinite if it need not wait for more
  /// to arrive.
  double backlog(const FluidEdge& edge) const;
  /// Advances time to the next event, or to `until` if that is earlier.
  void step(double until);
  // Helpers of schedule().
  void choose_runs(RunChooser& chooser, double smallest_bytes, bool reconsider_all);
  double sent_by_root(std::uint32_t flow) const;

  std::vector<FluidEdge> edges_;
  std::vector<std::vector<std::uint32_t>> children_;  ///< Per edge, the edges that it feeds.
  struct SendingDevice {
    std::vector<FluidStream> streams;  ///< Streams in the order of their flows.
    /// Indices of the streams that have something to send, ascending.
    std::vector<std::uint32_t> live;
    std::size_t slots = 1;  ///< Number of streams that may send at a time.
  };
  std::vector<SendingDevice> devices_;
  struct Sender {
    std::uint32_t device, stream;
  };
  std::vector<Sender> sender_of_;  ///< Per edge, its sender.
  std::vector<double> capacity_;   ///< Bytes per second. Egress of host h at 2h, ingress at 2h + 1.
  SimulateOptions options_;
  double hop_seconds_;

  double now_ = 0;
  std::size_t unfinished_ = 0;
  struct EdgeStart {
    double seconds;
    std::uint32_t edge;
  };
  std::vector<EdgeStart> starts_;      ///< Edges whose first chunk is on its way.
  std::vector<std::uint32_t> active_;  ///< Edges that send now.
  /// Edges whose feeder is running and has not yet delivered the first chunk.
  std::vector<std::uint32_t> waiting_;
  MaxMinShares shares_;  ///< Shares of the capacities, by edge.
  FlowSimulation result_;

  // State of schedule(), which chooses what roots send instead of taking flows in the order of ids.
  bool scheduling_ = false;
  std::vector<std::vector<std::uint32_t>> edges_of_;  ///< Per flow, its edges between hosts.
  std::vector<bool> chosen_;                          ///< Per flow, true if its root may send it.
  /// Per chosen flow, index into runs_.
  std::vector<std::size_t> run_of_;
  std::vector<FlowRun> runs_;
};

}  // namespace weft::transfer::internal

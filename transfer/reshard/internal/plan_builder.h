#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transfer/reshard/internal/reshard_demand.h"
#include "transfer/reshard/plan_options.h"
#include "transfer/reshard/tree.h"
#include "transfer/topology/network.h"

namespace weft::transfer::internal {

/// Edge of a flow between two hosts.
struct HostEdge {
  HostId parent;
  HostId child;
};

/// Flows of one plan in construction, to which all strategies and sums write. Lives for one call of
/// plan_reshard().
class PlanBuilder {
 public:
  PlanBuilder(const ReshardDemand& demand, const Topology& topology, const Network& network,
              const PlanOptions& options)
      : demand_(demand),
        topology_(topology),
        network_(network),
        options_(options),
        loads_(topology) {}

  const ReshardDemand& demand() const { return demand_; }
  const Topology& topology() const { return topology_; }
  const Network& network() const { return network_; }
  const PlanOptions& options() const { return options_; }
  const Loads& loads() const { return loads_; }

  /// Returns a holder on `host` if there is one, since its bytes cross no wire. Otherwise returns
  /// the device that sends least, of the host that sends least.
  DeviceId sender_for(HostId host, const SliceGroup& bundle) const;

  /// Adds a flow of `range` of the bundle from `root` along `edges`. Flows keep the order of these
  /// calls.
  void add(const SliceGroup& bundle, ByteRange range, DeviceId root, std::vector<FlowEdge> edges);
  /// Adds a flow of the whole bundle.
  void add(const SliceGroup& bundle, DeviceId root, std::vector<FlowEdge> edges) {
    add(bundle, {0, bundle.bytes}, root, std::move(edges));
  }
  /// Adds flows inside hosts, to the receivers that have a holder on their own host.
  void add_local(const SliceGroup& bundle);
  /// Returns edges from `root` along `hosts` (parents first). Each host has one entry, its least
  /// loaded receiver. The entry forwards the flow to the next hosts and, in a binary tree, to the
  /// other receivers of its host.
  std::vector<FlowEdge> edges_along(const SliceGroup& bundle, DeviceId root,
                                    std::span<const HostEdge> hosts) const;
  /// Adds a chain over the hosts that need the bundle and do not hold it, ascending, from
  /// `sender`'s least loaded holder. Then calls add_local().
  void add_chain(const SliceGroup& bundle, HostId sender);

  /// Returns, per flow, the devices of its root's host that hold its payload.
  const std::vector<std::vector<DeviceId>>& roots() const { return roots_; }

  /// Returns the flows in the order of the add() calls, with ids and chunks. `limit_seconds` is the
  /// plan's limit, for the choice of chunks.
  std::vector<Flow> finish(double limit_seconds);

 private:
  /// Sets a flow's chunks; see PlanOptions::chunks. `streams`: number of flows that each host sends
  /// at a time.
  void choose_chunks(Flow& flow, std::size_t element_size, double limit_seconds,
                     std::span<const std::uint32_t> streams) const;
  std::vector<std::uint32_t> streams_of_hosts() const;
  const ReshardDemand& demand_;
  const Topology& topology_;
  const Network& network_;
  const PlanOptions& options_;
  Loads loads_;
  std::vector<Flow> flows_;
  std::vector<std::size_t> element_sizes_;
  std::vector<std::vector<DeviceId>> roots_;
};

/// Returns the bundles in the order in which balancing strategies place them: few holders first,
/// since these leave no choice, then large bundles.
std::vector<std::uint32_t> placement_order(const ReshardDemand& demand);

}  // namespace weft::transfer::internal

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transfer/reshard/internal/demand.h"
#include "transfer/reshard/plan_options.h"
#include "transfer/reshard/tree.h"
#include "transfer/topology/network.h"

namespace weft::transfer::internal {

/// One host passes a flow on to another.
struct HostEdge {
  HostId parent;
  HostId child;
};

/// The flows of one plan in the making: what all strategies and sums write to. Lives for one call
/// of plan_reshard.
class Draft {
 public:
  Draft(const Demand& demand, const Topology& topology, const Network& network,
        const PlanOptions& options)
      : demand_(demand),
        topology_(topology),
        network_(network),
        options_(options),
        loads_(topology) {}

  const Demand& demand() const { return demand_; }
  const Topology& topology() const { return topology_; }
  const Network& network() const { return network_; }
  const PlanOptions& options() const { return options_; }
  const Loads& loads() const { return loads_; }

  /// A holder on `host` if there is one (those bytes cross no wire), else of the host that sends
  /// least, the device that sends least.
  DeviceId sender_for(HostId host, const Bundle& bundle) const;

  /// `range` of the bundle goes down `edges` from `root`. Flows keep the order of these calls.
  void add(const Bundle& bundle, ByteRange range, DeviceId root, std::vector<FlowEdge> edges);
  /// All of the bundle.
  void add(const Bundle& bundle, DeviceId root, std::vector<FlowEdge> edges) {
    add(bundle, {0, bundle.bytes}, root, std::move(edges));
  }
  /// The devices that want the bundle and have a holder on their own host get it from there.
  void add_local(const Bundle& bundle);
  /// From `root` along `hosts` (parents first). Each host has one entry, the wanting device that
  /// sends and receives least, which passes the flow on to the next hosts and, in a binary tree, to
  /// the other wanting devices of its host.
  std::vector<FlowEdge> edges_along(const Bundle& bundle, DeviceId root,
                                    std::span<const HostEdge> hosts) const;
  /// A chain over the hosts that want the bundle and do not hold it, ascending, from `sender`'s
  /// least loaded holder; and add_local.
  void add_chain(const Bundle& bundle, HostId sender);

  /// Per flow, the devices of its root's host that hold what it carries.
  const std::vector<std::vector<DeviceId>>& roots() const { return roots_; }

  /// The flows in the order given, with ids and chunks. `limit_seconds`: the plan's limit, for the
  /// choice of chunks.
  std::vector<Flow> finish(double limit_seconds);

 private:
  /// Sets a flow's chunks; see PlanOptions::chunks. `streams`: how many flows each host sends at a
  /// time.
  void choose_chunks(Flow& flow, std::size_t element_size, double limit_seconds,
                     std::span<const std::uint32_t> streams) const;
  std::vector<std::uint32_t> streams_of_hosts() const;
  const Demand& demand_;
  const Topology& topology_;
  const Network& network_;
  const PlanOptions& options_;
  Loads loads_;
  std::vector<Flow> flows_;
  std::vector<std::size_t> element_sizes_;
  std::vector<std::vector<DeviceId>> roots_;
};

/// The bundles as balancing strategies take them: few holders first, since they have no choice;
/// then the large ones.
std::vector<std::uint32_t> placement_order(const Demand& demand);

}  // namespace weft::transfer::internal

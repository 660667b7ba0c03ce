#include "transfer/reshard/plan_stats.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/units.h"

namespace weft::transfer {

PlanStats plan_stats(const ReshardPlan& plan) {
  const Topology& topology = plan.topology;
  PlanStats stats;
  stats.sent_by_device.resize(topology.num_devices());
  stats.received_by_device.resize(topology.num_devices());
  std::vector<std::uint64_t> egress(topology.num_hosts()), ingress(topology.num_hosts());
  for (const Flow& flow : plan.flows) {
    for (const FlowEdge& edge : flow.edges) {
      stats.sent_by_device[edge.parent.value()] += flow.bytes;
      stats.received_by_device[edge.child.value()] += flow.bytes;
      const HostId from = topology.host_of(edge.parent), to = topology.host_of(edge.child);
      if (from == to) {
        stats.bytes_inside_hosts += flow.bytes;
        continue;
      }
      stats.bytes_between_hosts += flow.bytes;
      egress[from.value()] += flow.bytes;
      ingress[to.value()] += flow.bytes;
    }
  }
  for (const LocalCopy& copy : plan.copies)
    stats.bytes_copied +=
        Segment::whole(copy.tensor, copy.region, size_of(plan.tasks.at(copy.tensor).type.dtype))
            .bytes;
  stats.minimum_between_hosts = plan.minimum_between_hosts;
  if (!egress.empty()) {
    stats.busiest_host_egress = *std::max_element(egress.begin(), egress.end());
    stats.busiest_host_ingress = *std::max_element(ingress.begin(), ingress.end());
  }
  return stats;
}

std::string to_string(const PlanStats& stats) {
  return fmt::format(
      "{} between hosts (minimum {}), {} inside, busiest egress {}, ingress {}",
      format_bytes(stats.bytes_between_hosts), format_bytes(stats.minimum_between_hosts),
      format_bytes(stats.bytes_inside_hosts), format_bytes(stats.busiest_host_egress),
      format_bytes(stats.busiest_host_ingress));
}

}  // namespace weft::transfer

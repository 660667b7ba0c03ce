#include "apps/cli/link_loads.h"

namespace weft::apps {

std::vector<LinkLoad> link_loads(const transfer::ReshardPlan& plan,
                                 const transfer::Network& network) {
  std::vector<LinkLoad> loads(plan.topology.num_hosts());
  for (const transfer::Flow& flow : plan.flows) {
    for (const transfer::FlowEdge& edge : flow.edges) {
      const transfer::HostId from = plan.topology.host_of(edge.parent),
                             to = plan.topology.host_of(edge.child);
      if (from == to) continue;
      loads[from.value()].bytes_out += flow.bytes;
      loads[to.value()].bytes_in += flow.bytes;
    }
  }
  for (std::size_t host = 0; host < loads.size(); ++host) {
    const transfer::Network::HostLinks& links = network.host(transfer::HostId(host));
    loads[host].seconds_out = loads[host].bytes_out / links.egress();
    loads[host].seconds_in = loads[host].bytes_in / links.ingress();
  }
  return loads;
}

}  // namespace weft::apps

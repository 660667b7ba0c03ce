#include <algorithm>
#include <map>

#include "transfer/reshard/internal/strategies.h"

namespace weft::transfer::internal {

void plan_broadcast_naive(PlanBuilder& draft) {
  for (const SliceGroup& bundle : draft.demand().bundles)
    draft.add_chain(bundle, draft.topology().host_of(bundle.holders.front()));
}

void plan_broadcast(PlanBuilder& draft) {
  const Topology& topology = draft.topology();
  for (const std::uint32_t index : placement_order(draft.demand())) {
    // Hosts with a holder are served from it. The other hosts share one flow, whose root also
    // serves its own host.
    const SliceGroup& bundle = draft.demand().bundles[index];
    const std::vector<HostId> holder_hosts = hosts_of(bundle.holders, topology);
    std::vector<DeviceId> remote;
    std::map<HostId, std::vector<DeviceId>> local;
    for (const DeviceId receiver : bundle.receivers) {
      const HostId host = topology.host_of(receiver);
      if (std::binary_search(holder_hosts.begin(), holder_hosts.end(), host))
        local[host].push_back(receiver);
      else remote.push_back(receiver);
    }
    if (!remote.empty()) {
      const DeviceId root = least_loaded_holder(bundle.holders, topology, draft.loads());
      if (const auto own = local.find(topology.host_of(root)); own != local.end()) {
        remote.insert(remote.end(), own->second.begin(), own->second.end());
        local.erase(own);
      }
      draft.add(bundle, root, broadcast_tree(root, remote, topology, draft.loads()));
    }
    for (const auto& [host, receivers] : local) {
      const DeviceId root = draft.sender_for(host, bundle);
      draft.add(bundle, root, broadcast_tree(root, receivers, topology, draft.loads()));
    }
  }
}

}  // namespace weft::transfer::internal

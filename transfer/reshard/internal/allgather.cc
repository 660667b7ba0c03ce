#include "transfer/reshard/internal/strategies.h"

namespace weft::transfer::internal {

void plan_local_allgather(PlanBuilder& draft) {
  for (const std::uint32_t index : placement_order(draft.demand())) {
    const SliceGroup& bundle = draft.demand().bundles[index];
    const std::vector<HostId> hosts = hosts_of(bundle.receivers, draft.topology());
    if (hosts.size() > 1 || bundle.receivers.size() == 1) {
      add_send_recv(draft, bundle);
      continue;
    }
    const std::vector<ByteRange> pieces = even_pieces(bundle.bytes, bundle.receivers.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const DeviceId sender = draft.sender_for(hosts.front(), bundle), first = bundle.receivers[i];
      std::vector<FlowEdge> edges = {{sender, first}};
      for (const DeviceId other : bundle.receivers) {
        if (other != first) edges.push_back({first, other});
      }
      draft.add(bundle, pieces[i], sender, std::move(edges));
    }
  }
}

void plan_global_allgather(PlanBuilder& draft) {
  for (const std::uint32_t index : placement_order(draft.demand())) {
    const SliceGroup& bundle = draft.demand().bundles[index];
    const std::size_t n = bundle.receivers.size();
    const std::vector<ByteRange> pieces = even_pieces(bundle.bytes, n);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      // The piece goes to its receiver, then around the ring of all receivers.
      DeviceId previous = draft.sender_for(draft.topology().host_of(bundle.receivers[i]), bundle);
      const DeviceId sender = previous;
      std::vector<FlowEdge> edges;
      for (std::size_t j = 0; j < n; ++j) {
        edges.push_back({previous, bundle.receivers[(i + j) % n]});
        previous = edges.back().child;
      }
      draft.add(bundle, pieces[i], sender, std::move(edges));
    }
  }
}

}  // namespace weft::transfer::internal

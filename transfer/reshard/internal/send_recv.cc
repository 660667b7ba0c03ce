#include "transfer/reshard/internal/strategies.h"

namespace weft::transfer::internal {

void add_send_recv(PlanBuilder& draft, const SliceGroup& bundle) {
  for (const DeviceId receiver : bundle.receivers) {
    const DeviceId sender = draft.sender_for(draft.topology().host_of(receiver), bundle);
    draft.add(bundle, sender, {{sender, receiver}});
  }
}

void plan_send_recv(PlanBuilder& draft) {
  for (const std::uint32_t i : placement_order(draft.demand()))
    add_send_recv(draft, draft.demand().bundles[i]);
}

}  // namespace weft::transfer::internal

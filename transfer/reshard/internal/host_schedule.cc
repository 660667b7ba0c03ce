#include "transfer/reshard/internal/host_schedule.h"

#include <algorithm>

#include "transfer/reshard/internal/strategies.h"

namespace weft::transfer::internal {

std::vector<Unit> units_of(const Demand& demand) {
  std::vector<Unit> units;
  for (std::uint32_t i = 0; i < demand.bundles.size(); ++i) {
    const Bundle& bundle = demand.bundles[i];
    if (bundle.datum == Bundle::kNoDatum) continue;
    Unit unit{i, bundle.bytes, {}, {}};
    for (const HostId host : demand.data[bundle.datum].holders)
      unit.senders.push_back(host.value());
    for (const HostId host : demand.data[bundle.datum].receivers)
      unit.receivers.push_back(host.value());
    units.push_back(std::move(unit));
  }
  return units;
}

std::uint64_t makespan(const std::vector<Unit>& units, const std::vector<HostAssignment>& order,
                       std::size_t num_hosts) {
  std::vector<std::uint64_t> free(num_hosts);
  std::uint64_t last = 0;
  for (const HostAssignment& placement : order) {
    const Unit& unit = units[placement.unit];
    std::uint64_t end = free[placement.sender];
    for (const std::uint32_t host : unit.receivers) end = std::max(end, free[host]);
    end += unit.bytes;
    free[placement.sender] = end;
    for (const std::uint32_t host : unit.receivers) free[host] = end;
    last = std::max(last, end);
  }
  return last;
}

void add_in_order(Draft& draft, const std::vector<Unit>& units,
                  const std::vector<HostAssignment>& order) {
  for (const HostAssignment& placement : order)
    draft.add_chain(draft.demand().bundles[units[placement.unit].bundle], HostId(placement.sender));
  for (const Bundle& bundle : draft.demand().bundles) {
    if (bundle.datum == Bundle::kNoDatum) draft.add_local(bundle);
  }
}

void plan_broadcast_greedy(Draft& draft) {
  const std::vector<Unit> units = units_of(draft.demand());
  add_in_order(draft, units,
               greedy_order(units, draft.topology().num_hosts(), draft.options().seed));
}

void plan_broadcast_search(Draft& draft) {
  const std::vector<Unit> units = units_of(draft.demand());
  const std::size_t hosts = draft.topology().num_hosts();
  const std::vector<HostAssignment> greedy = greedy_order(units, hosts, draft.options().seed);
  add_in_order(draft, units, search_order(units, hosts, greedy, draft.options().search_nodes));
}

}  // namespace weft::transfer::internal

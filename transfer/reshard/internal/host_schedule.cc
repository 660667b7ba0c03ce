#include "transfer/reshard/internal/host_schedule.h"

#include <algorithm>

#include "transfer/reshard/internal/strategies.h"

namespace weft::transfer::internal {

std::vector<ScheduleItem> units_of(const ReshardDemand& demand) {
  std::vector<ScheduleItem> units;
  for (std::uint32_t i = 0; i < demand.bundles.size(); ++i) {
    const SliceGroup& bundle = demand.bundles[i];
    if (bundle.datum == SliceGroup::kNoDatum) continue;
    ScheduleItem unit{i, bundle.bytes, {}, {}};
    for (const HostId host : demand.data[bundle.datum].holders)
      unit.senders.push_back(host.value());
    for (const HostId host : demand.data[bundle.datum].receivers)
      unit.receivers.push_back(host.value());
    units.push_back(std::move(unit));
  }
  return units;
}

std::uint64_t makespan(const std::vector<ScheduleItem>& units,
                       const std::vector<HostAssignment>& order, std::size_t num_hosts) {
  std::vector<std::uint64_t> free(num_hosts);
  std::uint64_t last = 0;
  for (const HostAssignment& placement : order) {
    const ScheduleItem& unit = units[placement.unit];
    std::uint64_t end = free[placement.sender];
    for (const std::uint32_t host : unit.receivers) end = std::max(end, free[host]);
    end += unit.bytes;
    free[placement.sender] = end;
    for (const std::uint32_t host : unit.receivers) free[host] = end;
    last = std::max(last, end);
  }
  return last;
}

void add_in_order(PlanBuilder& draft, const std::vector<ScheduleItem>& units,
                  const std::vector<HostAssignment>& order) {
  for (const HostAssignment& placement : order)
    draft.add_chain(draft.demand().bundles[units[placement.unit].bundle], HostId(placement.sender));
  for (const SliceGroup& bundle : draft.demand().bundles) {
    if (bundle.datum == SliceGroup::kNoDatum) draft.add_local(bundle);
  }
}

void plan_broadcast_greedy(PlanBuilder& draft) {
  const std::vector<ScheduleItem> units = units_of(draft.demand());
  add_in_order(draft, units,
               greedy_order(units, draft.topology().num_hosts(), draft.options().seed));
}

void plan_broadcast_search(PlanBuilder& draft) {
  const std::vector<ScheduleItem> units = units_of(draft.demand());
  const std::size_t hosts = draft.topology().num_hosts();
  const std::vector<HostAssignment> greedy = greedy_order(units, hosts, draft.options().seed);
  add_in_order(draft, units, search_order(units, hosts, greedy, draft.options().search_nodes));
}

}  // namespace weft::transfer::internal

#include "transfer/reshard/internal/egress_slots.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::transfer::internal {

std::vector<std::uint32_t> egress_slots(const WeftProblem& problem, const HostLoads& loads,
                                        std::span<const Flow> flows,
                                        std::span<const std::vector<DeviceId>> roots,
                                        const EgressLimit& rule, bool yield) {
  std::vector<bool> sends(problem.topology.num_devices());
  std::vector<std::size_t> senders(problem.topology.num_hosts());
  std::vector<double> slowest(problem.topology.num_hosts(),
                              std::numeric_limits<double>::infinity());
  const auto sender = [&](DeviceId device) {
    if (!sends[device.value()]) ++senders[problem.topology.host_of(device).value()];
    sends[device.value()] = true;
  };
  for (std::size_t i = 0; i < flows.size(); ++i) {
    if (!roots.empty() && !flows[i].edges.empty())
      std::for_each(roots[i].begin(), roots[i].end(), sender);
    for (const FlowEdge& edge : flows[i].edges) {
      const std::uint32_t host = problem.topology.host_of(edge.parent).value();
      sender(edge.parent);
      slowest[host] = std::min(
          slowest[host], problem.network.host(problem.topology.host_of(edge.child)).ingress());
    }
  }
  std::vector<std::uint32_t> places;
  for (std::uint32_t device = 0; device < sends.size(); ++device) {
    const std::uint32_t host = problem.topology.host_of(DeviceId(device)).value();
    std::size_t count = rule.limit_per_device(senders[host]);
    const double needed =
        std::min(std::ceil(problem.network.hosts[host].egress() / slowest[host] - 0.1), 8.0);
    if (needed > 1 && sends[device]) {
      const std::size_t streams = std::max(rule.host_streams, static_cast<std::size_t>(needed));
      count = std::max(count,
                       std::min(rule.host_streams, (streams + senders[host] - 1) / senders[host]));
    }
    if (yield && needed <= 1 && loads.has_time_to_spare(HostId(host))) count = 1;
    if (yield && loads.is_urgent(HostId(host)))
      count = std::max(count, std::min(rule.host_streams, 2 * count));
    places.push_back(count);
  }
  return places;
}

}  // namespace weft::transfer::internal

#include "mesh/plan/observed_network.h"

#include <fmt/format.h>

#include <vector>

#include "core/base/check.h"
#include "core/base/units.h"

namespace weft::mesh {

transfer::Network observed_network(const TrainingPlan& plan, std::span<const double> egress_rates) {
  WEFT_CHECK(egress_rates.size() <= plan.topology.num_devices(), "{} rates for {} devices", egress_rates.size(),
             plan.topology.num_devices());
  std::vector<double> of_host(plan.network.num_hosts());
  for (std::uint32_t device = 0; device < egress_rates.size(); ++device)
    of_host[plan.topology.host_of(transfer::DeviceId(device)).value()] += egress_rates[device];
  std::vector<transfer::ObservedEgress> observed;
  for (std::uint32_t host = 0; host < of_host.size(); ++host) {
    if (of_host[host] > 0) observed.push_back({transfer::HostId(host), of_host[host]});
  }
  return transfer::updated(plan.network, observed);
}

std::string describe_change(const TrainingPlan& plan, const transfer::Network& network) {
  std::string text;
  for (std::size_t host = 0; host < network.num_hosts(); ++host) {
    const double before = plan.network.hosts[host].egress(), now = network.hosts[host].egress();
    if (before == now) continue;
    text += fmt::format("{}{} sends {}/s where the plan counted on {}/s", text.empty() ? "" : ", ", plan.hosts[host],
                        format_bytes(static_cast<std::uint64_t>(now)), format_bytes(static_cast<std::uint64_t>(before)));
  }
  return text;
}

}  // namespace weft::mesh

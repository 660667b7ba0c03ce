#include "mesh/plan/plan_conditions.h"

#include <algorithm>

namespace weft::mesh {

double PlanConditions::device_flops() const {
  const bool gpus = std::ranges::any_of(device_places, &transfer::DeviceCapabilities::is_gpu);
  return flops_per_second.value_or(gpus ? kUnknownGpu : kUnknownCpu);
}

transfer::Network PlanConditions::network_of(const std::vector<std::string>& hosts) const {
  if (observed_network) return *observed_network;
  transfer::Network network = transfer::Network::uniform(hosts.size(), kUnknownLink);
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (const auto link = links.find(hosts[i]); link != links.end())
      network.hosts[i] = {{transfer::Nic{link->second, link->second}}};
  return network;
}

}  // namespace weft::mesh

#include "transfer/topology/topology.h"

#include <algorithm>

#include "core/base/error.h"

namespace weft::transfer {

HostId Topology::host_of(DeviceId device) const {
  if (device.value() >= host_of_device.size()) {
    throw_error(ErrorCode::kInvalidArgument,
                "device {} is not in the topology, which has {} devices", device,
                host_of_device.size());
  }
  return host_of_device[device.value()];
}

std::size_t Topology::num_hosts() const {
  std::size_t hosts = 0;
  for (const HostId host : host_of_device) hosts = std::max<std::size_t>(hosts, host.value() + 1);
  return hosts;
}

Topology Topology::dense(const std::vector<int>& devices_per_host) {
  Topology topology;
  for (std::size_t host = 0; host < devices_per_host.size(); ++host) {
    for (int i = 0; i < devices_per_host[host]; ++i)
      topology.host_of_device.push_back(HostId(host));
  }
  return topology;
}

}  // namespace weft::transfer

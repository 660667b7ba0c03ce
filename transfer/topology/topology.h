#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/base/strong_id.h"
#include "core/codec/codec.h"

namespace weft::transfer {

/// Cluster-wide dense index of a device of this run.
using DeviceId = StrongId<struct DeviceTag>;
/// Dense index of a host (an agent) of this run. Bytes between hosts cross a wire; bytes inside a
/// host use shared memory.
using HostId = StrongId<struct HostTag>;

/// Placement of devices on hosts. A value; the same on every process of a run.
struct Topology {
  /// Host of each device, indexed by DeviceId.
  std::vector<HostId> host_of_device;

  /// Returns the host of a device. Throws Error(kInvalidArgument) if it is not in the topology.
  HostId host_of(DeviceId device) const;
  std::size_t num_devices() const { return host_of_device.size(); }
  std::size_t num_hosts() const;

  /// Numbers devices host by host. {2, 2} puts devices 0 and 1 on host 0, 2 and 3 on host 1.
  static Topology dense(const std::vector<int>& devices_per_host);

  friend bool operator==(const Topology&, const Topology&) = default;
  static constexpr auto fields = weft::fields(&Topology::host_of_device);
};

}  // namespace weft::transfer

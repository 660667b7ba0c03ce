#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/base/strong_id.h"
#include "core/codec/codec.h"

namespace weft::transfer {

/// Cluster-wide dense index of a device of this run.
using DeviceId = StrongId<struct DeviceTag>;
/// Dense index of a host (an agent) of this run. Bytes between hosts cross a wire; inside one they
/// use shared memory.
using HostId = StrongId<struct HostTag>;

/// Which host each device lives on. A value; the same on every process of a run.
struct Topology {
  /// Indexed by DeviceId.
  std::vector<HostId> host_of_device;

  /// Throws Error(kInvalidArgument) for a device that is not in the topology.
  HostId host_of(DeviceId device) const;
  std::size_t num_devices() const { return host_of_device.size(); }
  std::size_t num_hosts() const;

  /// `devices_per_host` {2, 2}: devices 0 and 1 on host 0, 2 and 3 on host 1.
  static Topology dense(const std::vector<int>& devices_per_host);

  friend bool operator==(const Topology&, const Topology&) = default;
  static constexpr auto fields = weft::fields(&Topology::host_of_device);
};

}  // namespace weft::transfer

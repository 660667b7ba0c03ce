#pragma once

#include <algorithm>
#include <cstddef>

namespace weft::transfer {

/// Limit on the number of streams that send to other hosts at a time; the lowest flows go first.
/// More streams share the link and all finish late, and at a receiver they make bursts that a
/// switch drops. Fewer leave the link idle where receivers are slow. The executor applies the
/// limit; the planner and the simulator assume it. Shared memory has no such limit.
struct EgressLimit {
  std::size_t device_streams = 2;  ///< Limit per device. 0: no limit.
  /// Limit per host, shared by its devices; each device may always send one.
  std::size_t host_streams = 4;

  /// Returns the limit of each device on a host with `devices` devices.
  std::size_t limit_per_device(std::size_t devices) const {
    return std::min(device_streams,
                    std::max<std::size_t>(1, host_streams / std::max<std::size_t>(1, devices)));
  }
};

}  // namespace weft::transfer

#pragma once

#include <algorithm>
#include <cstddef>

namespace weft::transfer {

/// How many streams send to other hosts at a time: the lowest flows first. More share the link and
/// all finish late, and at a receiver they make bursts that a switch drops; fewer leave the link
/// idle where receivers are slow. The executor keeps it, the planner and the simulator count on it.
/// Shared memory has no such limit.
struct EgressRule {
  std::size_t device_streams = 2;  ///< Of one device. 0: no limit.
  std::size_t host_streams = 4;    ///< Of all devices of a host together, but at least one of each.

  /// Of each device of a host that has so many.
  std::size_t streams_of_each(std::size_t devices) const {
    return std::min(device_streams,
                    std::max<std::size_t>(1, host_streams / std::max<std::size_t>(1, devices)));
  }
};

}  // namespace weft::transfer

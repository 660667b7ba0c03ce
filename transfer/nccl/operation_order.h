#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "transfer/topology/topology.h"

namespace weft::transfer {

/// One execution of a transfer within a step.
struct OperationKey {
  std::uint32_t op = 0;
  std::int32_t microbatch = 0;  ///< -1 for what happens once per step.

  friend auto operator<=>(const OperationKey&, const OperationKey&) = default;
  static constexpr auto fields = weft::fields(&OperationKey::op, &OperationKey::microbatch);
};
/// "op 5 microbatch 2", "op 5".
std::string to_string(const OperationKey& key);

// What a device does in one step, as far as transfers are concerned.

struct TimelineWork {
  double seconds = 0;
};
struct TimelineStart {
  OperationKey key;
};
struct TimelineWait {
  OperationKey key;
};
using TimelineStep = std::variant<TimelineWork, TimelineStart, TimelineWait>;

/// The programs of a step, seen as work, starts and waits. All transfers belong here, also those
/// that engines carry: they decide what comes before what.
struct DeviceTimeline {
  DeviceId device;
  std::vector<TimelineStep> steps;
};

/// One order of all operations of a step that every device can follow: an operation is in its place
/// when the last of its devices has started it, supposing that work takes the time given and
/// transfers none.
///
/// Every device puts its operations on its stream in this order, each as soon as it is started here
/// and those before it are there. No device then ever stands still for ever: an operation that a
/// device waits for comes before everything that it starts only after that wait, on all devices.
/// Devices may start operations in other orders than this.
///
/// Throws Error(kInternal) when the timelines cannot finish even so.
std::vector<OperationKey> total_order(std::span<const DeviceTimeline> timelines);

/// The operations of `order` that `device` starts, without those whose op is not in `ops`.
std::vector<OperationKey> order_of_device(std::span<const OperationKey> order,
                                          const DeviceTimeline& timeline,
                                          const std::set<std::uint32_t>& ops);

}  // namespace weft::transfer

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

/// Identifier of one execution of a transfer within a step.
struct OperationKey {
  std::uint32_t op = 0;
  std::int32_t microbatch = 0;  ///< -1 for an operation that happens once per step.

  friend auto operator<=>(const OperationKey&, const OperationKey&) = default;
  static constexpr auto fields = weft::fields(&OperationKey::op, &OperationKey::microbatch);
};
/// Formats a key, such as "op 5 microbatch 2" or "op 5".
std::string to_string(const OperationKey& key);

// Steps of a device, as far as transfers are concerned.

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

/// Program of one device in a step, reduced to work, starts and waits. Includes all transfers, also
/// those that engines carry, because they constrain the order.
struct DeviceTimeline {
  DeviceId device;
  std::vector<TimelineStep> steps;
};

/// Returns one order of all operations of a step that every device can follow. Operations are
/// sorted by the time at which the last of their devices starts them, assuming that work takes the
/// given time and transfers take none.
///
/// Every device enqueues its operations on its stream in this order, each once it is started here
/// and its predecessors are enqueued. This cannot deadlock: an operation that a device waits for
/// precedes, on all devices, every operation that the device starts only after that wait. Devices
/// may start operations in other orders.
///
/// Throws Error(kInternal) if the timelines cannot finish at all.
std::vector<OperationKey> total_order(std::span<const DeviceTimeline> timelines);

/// Returns the operations of `order` that `device` starts and whose op is in `ops`.
std::vector<OperationKey> order_of_device(std::span<const OperationKey> order,
                                          const DeviceTimeline& timeline,
                                          const std::set<std::uint32_t>& ops);

}  // namespace weft::transfer

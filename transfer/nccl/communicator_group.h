#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transfer/topology/topology.h"

namespace weft::transfer {

/// Devices of one communicator, ascending: rank i is devices[i]. A value.
struct CommunicatorGroup {
  std::vector<DeviceId> devices;

  /// Returns the group of `devices`, sorted and without duplicates.
  static CommunicatorGroup of(std::vector<DeviceId> devices);

  int size() const { return devices.size(); }
  /// Returns the rank of `device`, or nullopt if it is not a member.
  std::optional<int> rank_of(DeviceId device) const;
  bool contains(DeviceId device) const { return rank_of(device).has_value(); }

  friend bool operator==(const CommunicatorGroup&, const CommunicatorGroup&) = default;
  friend auto operator<=>(const CommunicatorGroup&, const CommunicatorGroup&) = default;
  static constexpr auto fields = weft::fields(&CommunicatorGroup::devices);
};

/// Returns the members of `group` that are not dead.
CommunicatorGroup survivors_of(const CommunicatorGroup& group, std::span<const DeviceId> dead);

/// Formats a group, such as "{0,1,4}".
std::string to_string(const CommunicatorGroup& group);

}  // namespace weft::transfer

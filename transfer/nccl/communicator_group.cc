#include "transfer/nccl/communicator_group.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace weft::transfer {

CommunicatorGroup CommunicatorGroup::of(std::vector<DeviceId> devices) {
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return {std::move(devices)};
}

std::optional<int> CommunicatorGroup::rank_of(DeviceId device) const {
  const auto at = std::lower_bound(devices.begin(), devices.end(), device);
  if (at == devices.end() || *at != device) return std::nullopt;
  return static_cast<int>(at - devices.begin());
}

CommunicatorGroup survivors_of(const CommunicatorGroup& group, std::span<const DeviceId> dead) {
  CommunicatorGroup rest;
  std::copy_if(
      group.devices.begin(), group.devices.end(), std::back_inserter(rest.devices),
      [&](DeviceId device) { return std::find(dead.begin(), dead.end(), device) == dead.end(); });
  return rest;
}

std::string to_string(const CommunicatorGroup& group) {
  return fmt::format("{{{}}}", fmt::join(group.devices, ","));
}

}  // namespace weft::transfer

#include "transfer/nccl/communicator_cache.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"

namespace weft::transfer {

std::map<DeviceId, std::size_t> CommunicatorCache::memberships() const {
  std::map<DeviceId, std::size_t> counts;
  for (const auto& [group, call] : last_needed_) {
    for (const DeviceId device : group.devices) ++counts[device];
  }
  return counts;
}

std::vector<CommunicatorGroup> CommunicatorCache::shrink(std::span<const DeviceId> dead) {
  std::map<CommunicatorGroup, std::uint64_t> remaining;
  std::vector<CommunicatorGroup> groups;
  for (const auto& [group, call] : last_needed_) {
    const CommunicatorGroup rest = survivors_of(group, dead);
    if (rest == group || rest.size() < 2) continue;
    if (remaining.emplace(rest, call).second) groups.push_back(rest);
  }
  last_needed_ = std::move(remaining);
  return groups;
}

CommunicatorChanges CommunicatorCache::ensure(std::span<const CommunicatorGroup> groups) {
  ++calls_;
  CommunicatorChanges changes;
  std::map<DeviceId, std::size_t> needed;
  for (const CommunicatorGroup& group : groups) {
    const auto [at, added] = last_needed_.try_emplace(group);
    if (added) changes.create.push_back(group);
    if (added || at->second != calls_) {
      for (const DeviceId device : group.devices) ++needed[device];
    }
    at->second = calls_;
  }
  for (const auto& [device, count] : needed) {
    if (count > max_per_device_) {
      throw_error(ErrorCode::kResourceExhausted,
                  "device {} would be a member of {} communicators at once; {} are allowed", device,
                  count, max_per_device_);
    }
  }
  for (;;) {
    auto counts = memberships();
    const auto oldest = std::min_element(
        last_needed_.begin(), last_needed_.end(), [&](const auto& a, const auto& b) {
          const auto rank = [&](const auto& entry) {
            const bool crowded =
                std::any_of(entry.first.devices.begin(), entry.first.devices.end(),
                            [&](DeviceId device) { return counts[device] > max_per_device_; });
            return std::pair(!crowded || entry.second == calls_, entry.second);
          };
          return rank(a) < rank(b);
        });
    const bool too_many = std::any_of(counts.begin(), counts.end(), [&](const auto& entry) {
      return entry.second > max_per_device_;
    });
    if (!too_many) return changes;
    changes.destroy.push_back(oldest->first);
    last_needed_.erase(oldest);
  }
}

}  // namespace weft::transfer

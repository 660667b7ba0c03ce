#include "transfer/nccl/communicator_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/units.h"

namespace weft::transfer {
namespace {

/// Interval of polling a busy communicator. The library has no blocking wait.
constexpr Nanoseconds kPoll = std::chrono::microseconds(20);

}  // namespace

std::vector<CommunicatorId> CommunicatorSet::make_ids(
    std::span<const CommunicatorGroup> groups) const {
  std::vector<CommunicatorId> ids;
  for (const CommunicatorGroup& group : groups) {
    if (group.rank_of(self_) == 0) ids.push_back({group, library_.make_id()});
  }
  return ids;
}

void CommunicatorSet::apply(std::uint64_t epoch, const CommunicatorChanges& changes,
                            std::span<const CommunicatorId> ids, Nanoseconds timeout) {
  epoch_ = epoch;
  for (const CommunicatorGroup& group : changes.destroy) {
    const auto at = communicators_.find(group);
    if (at == communicators_.end()) continue;
    at->second->finalize();
    wait_until_ready(*at->second, group, "ended", timeout);
    communicators_.erase(at);
  }
  for (const CommunicatorGroup& group : changes.create) {
    const auto rank = group.rank_of(self_);
    if (!rank) continue;
    const auto id = std::find_if(ids.begin(), ids.end(), [&](const CommunicatorId& candidate) {
      return candidate.group == group;
    });
    if (id == ids.end()) {
      throw_error(
          ErrorCode::kInvalidArgument,
          "there is no id for the communicator {}; device {} must create it with make_ids()",
          to_string(group), group.devices.front());
    }
    WEFT_CHECK(!communicators_.contains(group), "{} exists on device {}", to_string(group), self_);
    auto& communicator = communicators_[group] =
        library_.create(id->id, group.size(), *rank, fmt::format("weft {}", to_string(group)));
    wait_until_ready(*communicator, group, "been created", timeout);
  }
}

DeviceCommunicator& CommunicatorSet::ready(const CommunicatorGroup& group, Nanoseconds timeout) {
  const auto at = communicators_.find(group);
  if (at == communicators_.end()) {
    throw_error(ErrorCode::kFailedPrecondition,
                "device {} has no communicator {}; it must be created before the first step", self_,
                to_string(group));
  }
  wait_until_ready(*at->second, group, "accepted its calls", timeout);
  return *at->second;
}

void CommunicatorSet::check() {
  for (const auto& [group, communicator] : communicators_) communicator->poll();
}

void CommunicatorSet::abort() noexcept {
  for (const auto& [group, communicator] : communicators_) communicator->stop();
  for (const auto& [group, communicator] : communicators_) communicator->abort();
  communicators_.clear();
}

void CommunicatorSet::shrink(std::uint64_t epoch, std::span<const DeviceId> dead,
                             Nanoseconds timeout) {
  epoch_ = epoch;
  for (const auto& [group, communicator] : communicators_) communicator->stop();
  for (auto at = communicators_.begin(); at != communicators_.end();) {
    const CommunicatorGroup rest = survivors_of(at->first, dead);
    if (rest != at->first && rest.size() > 1) {
      ++at;
      continue;
    }
    at->second->abort();
    at = communicators_.erase(at);
  }
  std::map<CommunicatorGroup, std::unique_ptr<DeviceCommunicator>> remaining;
  for (auto& [group, communicator] : communicators_) {
    const CommunicatorGroup rest = survivors_of(group, dead);
    if (remaining.contains(rest)) {
      communicator->abort();
      continue;
    }
    std::vector<int> excluded;
    for (int rank = 0; rank < group.size(); ++rank) {
      if (!rest.contains(group.devices[rank])) excluded.push_back(rank);
    }
    wait_until_ready(*communicator, group, "stopped", timeout);
    remaining[rest] = communicator->shrink(excluded);
    wait_until_ready(*remaining[rest], rest, "been rebuilt from the survivors", timeout);
  }
  communicators_ = std::move(remaining);
}

void CommunicatorSet::wait_until_ready(DeviceCommunicator& communicator,
                                       const CommunicatorGroup& group, const char* what,
                                       Nanoseconds timeout) {
  const TimePoint begun = clock_.now();
  while (communicator.poll() == DeviceCommunicator::State::kBusy) {
    cancellation_.check(epoch_);
    if (clock_.now() - begun > timeout) {
      throw_error(ErrorCode::kDeadlineExceeded,
                  "the communicator of devices {} has not {} within {}: one of them has died, is "
                  "unreachable, or executes operations in another order",
                  to_string(group), what,
                  format_seconds(std::chrono::duration<double>(timeout).count()));
    }
    cancellation_.pause(kPoll);
  }
}

}  // namespace weft::transfer

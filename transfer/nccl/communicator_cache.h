#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/codec/codec.h"
#include "transfer/nccl/communicator_group.h"

namespace weft::transfer {

/// Communicators to destroy and to create, in this order, on all devices. Each device handles those
/// of which it is a member.
struct CommunicatorChanges {
  std::vector<CommunicatorGroup> destroy;
  std::vector<CommunicatorGroup> create;
  static constexpr auto fields =
      weft::fields(&CommunicatorChanges::destroy, &CommunicatorChanges::create);
};

/// Record of the communicators that exist in a run. Destroying and creating one involves all
/// members, so a single device cannot decide. The cache decides for all devices at once, and equal
/// calls give equal changes in every process.
///
/// One thread at a time.
class CommunicatorCache final {
 public:
  /// `max_per_device`: limit of memberships of a device; at least the number that one program
  /// needs.
  explicit CommunicatorCache(std::size_t max_per_device = 12) : max_per_device_(max_per_device) {}

  /// Call before running a program that uses `groups`. Creates missing communicators. If a device
  /// would have too many, evicts the least recently used ones first. Throws
  /// Error(kResourceExhausted) if `groups` alone exceed the limit.
  CommunicatorChanges ensure(std::span<const CommunicatorGroup> groups);
  /// Records the death of devices (see CommunicatorSet::shrink()). Groups that lost members become
  /// their survivors; all other groups are dropped. Returns the groups that exist now.
  std::vector<CommunicatorGroup> shrink(std::span<const DeviceId> dead);
  /// Records that all communicators have been aborted.
  void clear() { last_needed_.clear(); }
  std::size_t size() const { return last_needed_.size(); }

 private:
  std::map<DeviceId, std::size_t> memberships() const;

  std::size_t max_per_device_;
  std::uint64_t calls_ = 0;
  std::map<CommunicatorGroup, std::uint64_t> last_needed_;  ///< Call that last needed each group.
};

}  // namespace weft::transfer

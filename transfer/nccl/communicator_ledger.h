#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/codec/codec.h"
#include "transfer/nccl/communicator_group.h"

namespace weft::transfer {

/// Communicators to end and to create, in this order, on all devices; each device does those that
/// it is a member of.
struct CommunicatorChanges {
  std::vector<CommunicatorGroup> destroy;
  std::vector<CommunicatorGroup> create;
  static constexpr auto fields =
      weft::fields(&CommunicatorChanges::destroy, &CommunicatorChanges::create);
};

/// Which communicators exist in a run. Ending and creating one takes all its members, so what a
/// device keeps cannot be its own choice: the ledger decides for all devices at once. One that
/// reads equal calls gives equal changes.
///
/// One thread at a time.
class CommunicatorLedger final {
 public:
  /// `max_per_device`: how many a device may be a member of; at least what one program needs.
  explicit CommunicatorLedger(std::size_t max_per_device = 12) : max_per_device_(max_per_device) {}

  /// Before a program runs that needs `groups`: what is missing is created, and where a device
  /// would have too many, those that were needed longest ago are ended first. Throws
  /// Error(kResourceExhausted) if `groups` alone are too many.
  CommunicatorChanges need(std::span<const CommunicatorGroup> groups);
  /// Devices have died and the others go on, see CommunicatorSet::shrink(): groups that lost
  /// members are now their survivors, all others are gone. What there is now.
  std::vector<CommunicatorGroup> shrink(std::span<const DeviceId> dead);
  /// All communicators have been aborted.
  void clear() { last_needed_.clear(); }
  std::size_t size() const { return last_needed_.size(); }

 private:
  std::map<DeviceId, std::size_t> memberships() const;

  std::size_t max_per_device_;
  std::uint64_t calls_ = 0;
  std::map<CommunicatorGroup, std::uint64_t> last_needed_;  ///< The call.
};

}  // namespace weft::transfer

#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/base/clock.h"
#include "transfer/nccl/collective_cancellation.h"
#include "transfer/nccl/communicator_ledger.h"
#include "transfer/nccl/device_collectives.h"

namespace weft::transfer {

/// What the members of a communicator must share before they create it. Travels with the control
/// plane's messages.
struct CommunicatorId {
  CommunicatorGroup group;
  std::vector<std::byte> id;
  static constexpr auto fields = weft::fields(&CommunicatorId::group, &CommunicatorId::id);
};

/// The communicators of one device in one epoch of its mesh. One thread at a time, the device's.
class CommunicatorSet final {
 public:
  /// All must outlive the set.
  CommunicatorSet(DeviceId self, DeviceCollectives& library, const Clock& clock,
                  CollectiveCancellation& cancellation)
      : self_(self), library_(library), clock_(clock), cancellation_(cancellation) {}

  /// Ids for those groups whose first member is this device.
  std::vector<CommunicatorId> make_ids(std::span<const CommunicatorGroup> groups) const;
  /// Ends and creates the communicators of which this device is a member, one after the other in
  /// the order of `changes`, which is the same on all devices. Throws Error(kDeadlineExceeded)
  /// naming the group that does not come together, within `timeout` each; kInvalidArgument if an id
  /// is missing.
  void apply(std::uint64_t epoch, const CommunicatorChanges& changes,
             std::span<const CommunicatorId> ids, Nanoseconds timeout);
  /// The communicator, ready for calls. Waits while earlier calls are still on their way to the
  /// stream.
  DeviceCommunicator& ready(const CommunicatorGroup& group, Nanoseconds timeout);
  /// Throws the error of a communicator that is broken.
  void check();
  /// Ends all at once, together with what they do.
  void abort() noexcept;
  /// Stops what is under way everywhere, replaces every communicator with dead members by one of
  /// its survivors, and gives up all others: nobody knows whether their members stand at the same
  /// operation. What remains is CommunicatorLedger::shrink()'s answer for this device.
  void shrink(std::uint64_t epoch, std::span<const DeviceId> dead, Nanoseconds timeout);

  bool contains(const CommunicatorGroup& group) const { return communicators_.contains(group); }
  std::size_t size() const { return communicators_.size(); }

 private:
  void settle(DeviceCommunicator& communicator, const CommunicatorGroup& group, const char* what,
              Nanoseconds timeout);

  const DeviceId self_;
  DeviceCollectives& library_;
  const Clock& clock_;
  CollectiveCancellation& cancellation_;
  std::uint64_t epoch_ = 0;
  std::map<CommunicatorGroup, std::unique_ptr<DeviceCommunicator>> communicators_;
};

}  // namespace weft::transfer
